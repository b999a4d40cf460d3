// Conversion of fields that the options of several methods share, in both
// directions. For proto/*.cc only.
#ifndef QUANTD_PROTO_OPTION_FIELDS_H_
#define QUANTD_PROTO_OPTION_FIELDS_H_

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "proto/messages.h"
#include "quantd/field_error.h"

namespace quantd::wire {

// Renames the field of an error: `from` becomes `to`, and `from.x` becomes
// `to.x`. A plan's error has one name for a field that has different names in
// requests.
absl::Status RenameField(absl::Status status, std::string_view from,
                         std::string_view to);

// Reads the dimension and mask of a rotation. `field` is the path of the
// message among the options.
absl::Status ReadRht(std::string_view field, const v1::Rht& message,
                     int* dimension, std::optional<SignMask>* mask);
// Writes a dimension and mask that a plan has settled.
v1::Rht ToProto(int dimension, const std::optional<SignMask>& mask);

CopyForm FromProto(const v1::CopyForm& message);
v1::CopyForm ToProto(const CopyForm& form);

Usage ReadUsage(v1::Usage usage);

template <typename Message, typename Options>
void ReadSplits(const Message& message, Options* options) {
  if (!message.has_splits()) return;
  options->splits.emplace(message.splits().rows().begin(),
                          message.splits().rows().end());
  options->partial_splits = message.splits().partial();
}
template <typename Options, typename Message>
void WriteSplits(const Options& options, Message* message) {
  if (!options.splits) return;
  v1::Splits& splits = *message->mutable_splits();
  splits.mutable_rows()->Assign(options.splits->begin(), options.splits->end());
  splits.set_partial(options.partial_splits);
}

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_OPTION_FIELDS_H_
