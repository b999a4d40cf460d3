// Files that have the name of a safetensors file and another format.
#ifndef QUANTD_CLIENT_FILES_FOREIGN_FORMAT_H_
#define QUANTD_CLIENT_FILES_FOREIGN_FORMAT_H_

#include <string>

#include "client/files/file.h"

namespace quantd {

// What the file's first bytes show it to be, and what to do about it, for a
// message. Empty where that is not known, or the file cannot be read. The
// caller asks this of files that are not what their names say.
std::string ForeignFormat(const InputFile& file);

// Text that a clone without Git LFS has in place of a large file.
bool IsLfsPointer(const InputFile& file);

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_FOREIGN_FORMAT_H_
