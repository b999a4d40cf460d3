// Exchanges memory with Python: buffers become spans, results become buffers.
#ifndef QUANTD_CLIENT_PYTHON_NATIVE_BUFFERS_H_
#define QUANTD_CLIENT_PYTHON_NATIVE_BUFFERS_H_

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>

#include "absl/types/span.h"
#include "quantd/result.h"

namespace quantd::python {

// The bytes of a C-contiguous object with the buffer protocol, or GPU memory
// given as a tuple (address, number of bytes). Holds the buffer until
// destruction. Create and destroy it with the GIL held.
class Borrowed {
 public:
  // Throws the Python exception if the object has no such buffer.
  Borrowed(nanobind::handle object, bool writable);
  ~Borrowed();
  Borrowed(const Borrowed&) = delete;

  absl::Span<std::byte> bytes() const { return bytes_; }
  bool on_device() const { return view_.obj == nullptr; }

 private:
  Py_buffer view_ = {};
  absl::Span<std::byte> bytes_;
};

// Binds HostMemory as a Python type with a writable buffer.
void BindMemory(nanobind::module_& module);

// One part of a result, as a Python type with a read-only buffer. The result
// lives as long as any part, or any buffer made from one.
struct Part {
  std::shared_ptr<const Result> result;
  absl::Span<const std::byte> bytes;
};
void BindPart(nanobind::module_& module);

}  // namespace quantd::python

#endif  // QUANTD_CLIENT_PYTHON_NATIVE_BUFFERS_H_
