#include "client/quantctl/models/model_report.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "client/checkpoint/report/page.h"
#include "client/checkpoint/report/report.h"
#include "client/files/file.h"
#include "fmt/format.h"

namespace quantd::quantctl {
absl::Status PrepareReport(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(),
                               fmt::format("cannot create {}", directory));
  }
  if (access(directory.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno,
                             fmt::format("cannot write into {}", directory));
}

absl::Status WriteReport(const std::string& directory,
                         const checkpoint::Model& a, const checkpoint::Model& b,
                         checkpoint::ModelDifference difference,
                         const std::vector<std::string>& notes) {
  const auto report = MakeReport(a, b, std::move(difference), notes);
  if (!report.ok()) return report.status();
  const auto s =
      WriteTextFile(directory + "/report.html", checkpoint::PageOf(*report));
  if (!s.ok()) return s;
  return WriteTextFile(
      directory + "/report.json",
      JsonOf(*report).dump(2, ' ', false,
                           checkpoint::Json::error_handler_t::replace) +
          "\n");
}

}  // namespace quantd::quantctl
