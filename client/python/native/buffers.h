// Exchanges memory with Python: buffers as spans, and results as buffers.
#ifndef QUANTD_CLIENT_PYTHON_NATIVE_BUFFERS_H_
#define QUANTD_CLIENT_PYTHON_NATIVE_BUFFERS_H_

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>

#include "absl/types/span.h"
#include "quantd/result.h"

namespace quantd::python {

// The bytes of an object with the buffer protocol that is C-contiguous, or GPU
// memory given as a tuple (address, number of bytes). Holds the buffer while it
// lives. Must be created and destroyed with the GIL held.
class Borrowed {
 public:
  // Throws Python's own exception if the object has no such bytes.
  Borrowed(nanobind::handle object, bool writable);
  ~Borrowed();
  Borrowed(const Borrowed&) = delete;

  absl::Span<std::byte> bytes() const { return bytes_; }
  bool on_device() const { return view_.obj == nullptr; }

 private:
  Py_buffer view_ = {};
  absl::Span<std::byte> bytes_;
};

// Host memory that calls use in place: writable bytes.
void BindMemory(nanobind::module_& module);

// One part of a result: read-only bytes for anything that takes buffers. The
// result lives as long as any of its parts, or buffers made from them.
struct Part {
  std::shared_ptr<const Result> result;
  absl::Span<const std::byte> bytes;
};
void BindPart(nanobind::module_& module);

}  // namespace quantd::python

#endif  // QUANTD_CLIENT_PYTHON_NATIVE_BUFFERS_H_
