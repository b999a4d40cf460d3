#include "client/python/native/buffers.h"

namespace quantd::python {
namespace {

int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  const auto& part = *nanobind::inst_ptr<Part>(nanobind::handle(self));
  // Nobody writes to it: the view is read-only. Empty parts are somewhere, too.
  static std::byte nothing;
  void* data =
      part.bytes.empty() ? &nothing : const_cast<std::byte*>(part.bytes.data());
  return PyBuffer_FillInfo(view, self, data,
                           static_cast<Py_ssize_t>(part.bytes.size()),
                           /*readonly=*/1, flags);
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&GetBuffer)},
                       {0, nullptr}};

}  // namespace

Borrowed::Borrowed(nanobind::handle object, bool writable) {
  if (PyObject_GetBuffer(object.ptr(), &view_,
                         writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0) {
    throw nanobind::python_error();
  }
}

Borrowed::~Borrowed() { PyBuffer_Release(&view_); }

void BindPart(nanobind::module_& module) {
  nanobind::class_<Part>(module, "Part", nanobind::type_slots(slots),
                         "One part of a result: read-only bytes.");
}

}  // namespace quantd::python
