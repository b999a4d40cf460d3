// The directory that a conversion writes: shards under other names until all
// of them are whole, and config.json last of all.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_OUTPUT_DIRECTORY_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_OUTPUT_DIRECTORY_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/checkpoint/convert/config_writer.h"
#include "client/checkpoint/convert/journal.h"
#include "client/checkpoint/convert/service.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

// OK where a model at `in` may be converted into `out`: a directory that is
// not there, is empty, or holds a conversion that was interrupted; neither the
// model's nor inside it, by whatever names. For a model that is a file, `out`
// may be a .safetensors file of another name. ALREADY_EXISTS for what is there
// and could be removed. Writes nothing.
absl::Status CheckOutput(const Model& in, const std::string& out);

// Write and Read may be called from many threads at once.
class OutputDirectory : public PartSink {
 public:
  // Takes the room for all shards at once. What fails here leaves nothing
  // behind that was not there before. `fingerprint` says what is converted and
  // how.
  static absl::StatusOr<std::unique_ptr<OutputDirectory>> Open(
      const Model& in, const ConversionPlan& plan, const std::string& out,
      const std::string& fingerprint);
  ~OutputDirectory() override;
  OutputDirectory(const OutputDirectory&) = delete;

  Journal& journal() { return *journal_; }
  // Bytes of a tensor that the plan has, from `offset` on.
  absl::Status Write(std::string_view tensor, size_t offset,
                     absl::Span<const std::byte> bytes) override;
  absl::Status Read(std::string_view tensor, size_t offset,
                    absl::Span<std::byte> bytes) const;

  // Gives the shards their names, then writes what goes beside them.
  absl::Status Finish(const std::vector<TextFile>& files);

 private:
  struct Shard {
    std::string path;  // in the end
    int fd = -1;
    bool made = false;  // by this process
  };
  struct Place {
    size_t shard = 0;
    size_t begin = 0;
    size_t size = 0;
  };
  OutputDirectory() = default;
  // Where a tensor goes. INTERNAL: `size` bytes at `offset` are not all of it.
  absl::StatusOr<const Place*> Find(std::string_view tensor, size_t offset,
                                    size_t size) const;
  absl::Status OpenShard(const OutputShard& planned, const std::string& path);
  absl::Status Abandon(absl::Status why);
  absl::Status Carry(const std::string& name) const;

  const Model* in_ = nullptr;
  std::string path_;
  bool made_ = false;  // the directory, by this process
  std::unique_ptr<Journal> journal_;
  std::vector<Shard> shards_;
  std::map<std::string, Place, std::less<>> places_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_OUTPUT_DIRECTORY_H_
