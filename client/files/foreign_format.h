// Recognizes files of other formats that are named like safetensors files.
#ifndef QUANTD_CLIENT_FILES_FOREIGN_FORMAT_H_
#define QUANTD_CLIENT_FILES_FOREIGN_FORMAT_H_

#include <string>

#include "client/files/file.h"

namespace quantd {

// Describes the format that the file's first bytes show, and what to do about
// it, for a message. Empty if unknown or unreadable. Only for files that turned
// out not to be what their names say.
std::string ForeignFormat(const InputFile& file);

// Whether it is the text that a clone without Git LFS has instead of a large
// file.
bool IsLfsPointer(const InputFile& file);

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_FOREIGN_FORMAT_H_
