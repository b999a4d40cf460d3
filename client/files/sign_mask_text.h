// Hexadecimal text of a sign mask, such as "0xD7E8". Bit i is set if sign i is
// -1.
#ifndef QUANTD_CLIENT_FILES_SIGN_MASK_TEXT_H_
#define QUANTD_CLIENT_FILES_SIGN_MASK_TEXT_H_

#include <optional>
#include <string>
#include <string_view>

#include "quantd/sign_mask.h"

namespace quantd {

std::string SignMaskToHex(const SignMask& mask, int dimension);
// Returns nullopt if `text` is not hexadecimal or is too long for the
// dimension.
std::optional<SignMask> SignMaskFromHex(std::string_view text, int dimension);

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_SIGN_MASK_TEXT_H_
