// Recognizes files of other formats that have the name of a safetensors file.
#ifndef QUANTD_CLIENT_FILES_FOREIGN_FORMAT_H_
#define QUANTD_CLIENT_FILES_FOREIGN_FORMAT_H_

#include <string>

#include "client/files/file.h"

namespace quantd {

// Describes the format of a file by its first bytes, and says what to do about
// it, for an error message. Empty if the format is unknown or the file
// unreadable. Only for files that cannot be read as their names say.
std::string ForeignFormat(const InputFile& file);

// Whether the file is a Git LFS pointer, which a clone without Git LFS has
// instead of a large file.
bool IsLfsPointer(const InputFile& file);

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_FOREIGN_FORMAT_H_
