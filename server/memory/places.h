// Locations of a call's tensors that are in shared memory, in regions that stay
// mapped as long as this object lives; and the client's events before and after
// the call.
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

  // Returns a FieldError for what the regions do not have. The request must
  // outlive this.
  static absl::StatusOr<Places> Find(const wire::Request& request,
                                     const Regions& regions);

  // Whether the inputs are in shared memory instead of the message. All are or
  // none.
  bool lends_inputs() const { return !inputs_.empty(); }
  bool lends_outputs() const { return !outputs_.empty(); }
  // One for each of plan.inputs(), including those that are fields of the
  // request.
  const std::vector<absl::Span<const std::byte>>& inputs() const {
    return inputs_;
  }
  // One for each of plan.outputs(); null if it travels in the reply.
  const std::vector<absl::Span<std::byte>>& outputs() const { return outputs_; }
  // The GPU in whose memory the inputs, or else the outputs, are; empty: the
  // host's memory.
  const std::string& device() const { return device_; }
  // Whether kernels read all inputs in place, in that GPU's memory.
  bool inputs_on_device() const { return inputs_on_device_; }
  // Whether a GPU copies all inputs directly from where they are.
  bool inputs_page_locked() const { return inputs_page_locked_; }
  // Whether any output is in a GPU's memory.
  bool outputs_on_device() const { return outputs_on_device_; }
  // Events to wait for before an input is read, and to record after the outputs
  // are written; or null. Both belong to the GPU in whose memory the tensors
  // are.
  const SharedEvent* wait_event() const { return wait_event_.get(); }
  const SharedEvent* record_event() const { return record_event_.get(); }
  // Bytes in shared memory.
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
