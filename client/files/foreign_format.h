// What lies under the name of a safetensors file and is none.
#ifndef QUANTD_CLIENT_FILES_FOREIGN_FORMAT_H_
#define QUANTD_CLIENT_FILES_FOREIGN_FORMAT_H_

#include <string>

#include "client/files/file.h"

namespace quantd {

// What the file's first bytes show it to be and what to do about it, for a
// message; empty: nothing that is known here, or it cannot be read. Asked of
// files that are no good as what they are called.
std::string ForeignFormat(const InputFile& file);

// Text that a clone without Git LFS has in place of a large file.
bool IsLfsPointer(const InputFile& file);

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_FOREIGN_FORMAT_H_
