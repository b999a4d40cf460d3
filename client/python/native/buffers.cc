#include "client/python/native/buffers.h"

#include <nanobind/stl/pair.h>

#include <cstdint>
#include <utility>

#include "quantd/buffers.h"

namespace quantd::python {
namespace {

int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  const auto& part = *nanobind::inst_ptr<Part>(nanobind::handle(self));
  // The view is read-only. Even an empty part needs a non-null address.
  static std::byte nothing;
  void* data =
      part.bytes.empty() ? &nothing : const_cast<std::byte*>(part.bytes.data());
  return PyBuffer_FillInfo(view, self, data,
                           static_cast<Py_ssize_t>(part.bytes.size()),
                           /*readonly=*/1, flags);
}

int GetMemory(PyObject* self, Py_buffer* view, int flags) {
  const auto& memory = *nanobind::inst_ptr<HostMemory>(nanobind::handle(self));
  return PyBuffer_FillInfo(view, self, memory.bytes().data(),
                           static_cast<Py_ssize_t>(memory.bytes().size()),
                           /*readonly=*/0, flags);
}

PyType_Slot memory_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(&GetMemory)}, {0, nullptr}};

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&GetBuffer)},
                       {0, nullptr}};

}  // namespace

Borrowed::Borrowed(nanobind::handle object, bool writable) {
  if (nanobind::isinstance<nanobind::tuple>(object)) {
    const auto [address, size] =
        nanobind::cast<std::pair<uintptr_t, size_t>>(object);
    bytes_ = {reinterpret_cast<std::byte*>(address), size};
    return;
  }
  if (PyObject_GetBuffer(object.ptr(), &view_,
                         writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0) {
    throw nanobind::python_error();
  }
  bytes_ = {static_cast<std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
}

Borrowed::~Borrowed() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
}

void BindMemory(nanobind::module_& module) {
  nanobind::class_<HostMemory>(module, "Memory",
                               nanobind::type_slots(memory_slots),
                               "Host memory that calls use in place.");
}

void BindPart(nanobind::module_& module) {
  nanobind::class_<Part>(module, "Part", nanobind::type_slots(slots),
                         "One part of a result: read-only bytes.");
}

}  // namespace quantd::python
