// Writes the output directory of a conversion. Shards have temporary names
// until all are complete, and config.json is written last.
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

// Checks that `in` may be converted into `out`: a directory that does not
// exist, is empty, or holds an interrupted conversion, and that is not the
// input directory, inside it or around it. If the model is a single file, `out`
// may be another .safetensors file. Returns ALREADY_EXISTS if other files,
// which the user could remove, are in the way, and INVALID_ARGUMENT if `out` is
// the wrong place. Writes nothing.
absl::Status CheckOutput(const Model& in, const std::string& out);

// Write and Read may be called by several threads at once.
class OutputDirectory : public PartSink {
 public:
  // Creates the directory and allocates the disk space of all shards. On
  // failure, removes what it created. `fingerprint` identifies the conversion.
  static absl::StatusOr<std::unique_ptr<OutputDirectory>> Open(
      const Model& in, const ConversionPlan& plan, const std::string& out,
      const std::string& fingerprint);
  ~OutputDirectory() override;
  OutputDirectory(const OutputDirectory&) = delete;

  Journal& journal() { return *journal_; }
  // Writes bytes of a tensor of the plan, beginning at `offset` in the tensor.
  absl::Status Write(std::string_view tensor, size_t offset,
                     absl::Span<const std::byte> bytes) override;
  absl::Status Read(std::string_view tensor, size_t offset,
                    absl::Span<std::byte> bytes) const;

  // Gives the shards their final names, copies the model's other files, then
  // writes `files`.
  absl::Status Finish(const std::vector<TextFile>& files);

 private:
  struct Shard {
    std::string path;  // final name
    int fd = -1;
    bool made = false;  // created by this process
  };
  // The bytes of a tensor in a shard's file.
  struct Place {
    size_t shard = 0;
    size_t begin = 0;
    size_t size = 0;
  };
  OutputDirectory() = default;
  // The position of a tensor. INTERNAL if [offset, offset + size) is outside
  // it.
  absl::StatusOr<const Place*> Find(std::string_view tensor, size_t offset,
                                    size_t size) const;
  // Opens or creates the shard under its temporary name, and writes its header.
  absl::Status OpenShard(const OutputShard& planned, const std::string& path);
  // Undoes Open after an error, which it returns.
  absl::Status Abandon(absl::Status why);
  // Copies a file of the model unchanged.
  absl::Status Carry(const std::string& name) const;

  const Model* in_ = nullptr;
  std::string path_;
  bool made_ = false;  // the directory was created by this process
  std::unique_ptr<Journal> journal_;
  std::vector<Shard> shards_;
  std::map<std::string, Place, std::less<>> places_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_OUTPUT_DIRECTORY_H_
