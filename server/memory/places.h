// The places of a call's tensors that are neither in its message nor in its
// reply: in regions, which stay mapped as long as this lives. And the client's
// events between which the call is done.
#ifndef QUANTD_SERVER_MEMORY_PLACES_H_
#define QUANTD_SERVER_MEMORY_PLACES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/wire.h"
#include "server/memory/regions.h"

namespace quantd {

class Places {
 public:
  Places() = default;

  // FieldError for what the regions do not have. The request must outlive it.
  static absl::StatusOr<Places> Find(const wire::Request& request,
                                     const Regions& regions);

  // Whether inputs lie elsewhere than in the message: then all of them.
  bool lends_inputs() const { return !inputs_.empty(); }
  bool lends_outputs() const { return !outputs_.empty(); }
  // For each of plan.inputs(); of one that is a field of the request, that.
  const std::vector<absl::Span<const std::byte>>& inputs() const {
    return inputs_;
  }
  // For each of plan.outputs(); null: it travels.
  const std::vector<absl::Span<std::byte>>& outputs() const { return outputs_; }
  // The GPU in whose memory they lie, an input's before an output's; empty:
  // the host's.
  const std::string& device() const { return device_; }
  // Whether kernels read all inputs where they lie in that memory.
  bool inputs_on_device() const { return inputs_on_device_; }
  // Whether a GPU copies all inputs by itself from where they lie.
  bool inputs_page_locked() const { return inputs_page_locked_; }
  // Whether any output lies in a GPU's memory.
  bool outputs_on_device() const { return outputs_on_device_; }
  // Before an input is read, and after the outputs are there; or null. Of the
  // GPU in whose memory they lie.
  const SharedEvent* wait_event() const { return wait_event_.get(); }
  const SharedEvent* record_event() const { return record_event_.get(); }
  // Bytes that are in regions.
  size_t input_bytes() const { return input_bytes_; }
  size_t output_bytes() const { return output_bytes_; }

 private:
  absl::Status FindEvents(const wire::LentRanges& lent, const Regions& regions);

  std::vector<std::shared_ptr<const Region>> regions_;
  std::shared_ptr<const SharedEvent> wait_event_;
  std::shared_ptr<const SharedEvent> record_event_;
  std::vector<absl::Span<const std::byte>> inputs_;
  std::vector<absl::Span<std::byte>> outputs_;
  std::string device_;
  bool inputs_on_device_ = false;
  bool inputs_page_locked_ = false;
  bool outputs_on_device_ = false;
  size_t input_bytes_ = 0;
  size_t output_bytes_ = 0;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_MEMORY_PLACES_H_
