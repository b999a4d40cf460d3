// A sign mask as text: "0xD7E8", bit i is set if sign i is -1.
#ifndef QUANTD_CLIENT_FILES_SIGN_MASK_TEXT_H_
#define QUANTD_CLIENT_FILES_SIGN_MASK_TEXT_H_

#include <optional>
#include <string>
#include <string_view>

#include "quantd/sign_mask.h"

namespace quantd {

std::string SignMaskToHex(const SignMask& mask, int dimension);
// nullopt if it is not such a number or does not fit the dimension.
std::optional<SignMask> SignMaskFromHex(std::string_view text, int dimension);

}  // namespace quantd

#endif  // QUANTD_CLIENT_FILES_SIGN_MASK_TEXT_H_
