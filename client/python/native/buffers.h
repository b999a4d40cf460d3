// Memory across the border: Python's buffers as spans, and results as buffers.
#ifndef QUANTD_CLIENT_PYTHON_NATIVE_BUFFERS_H_
#define QUANTD_CLIENT_PYTHON_NATIVE_BUFFERS_H_

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>

#include "absl/types/span.h"
#include "quantd/result.h"

namespace quantd::python {

// The bytes of an object that has the buffer protocol and is C-contiguous, or
// those of a GPU that a tuple names: (address, number). The object lends them
// while this lives. Made and destroyed with the GIL held.
class Borrowed {
 public:
  // Throws Python's own error for what has no such bytes.
  Borrowed(nanobind::handle object, bool writable);
  ~Borrowed();
  Borrowed(const Borrowed&) = delete;

  absl::Span<std::byte> bytes() const { return bytes_; }
  bool on_device() const { return view_.obj == nullptr; }

 private:
  Py_buffer view_ = {};
  absl::Span<std::byte> bytes_;
};

// Memory of the host that calls take where it lies: bytes that may be written.
void BindMemory(nanobind::module_& module);

// One part of a result: read-only bytes for all that take buffers. The result
// lives as long as any of them, or what was made of it.
struct Part {
  std::shared_ptr<const Result> result;
  absl::Span<const std::byte> bytes;
};
void BindPart(nanobind::module_& module);

}  // namespace quantd::python

#endif  // QUANTD_CLIENT_PYTHON_NATIVE_BUFFERS_H_
