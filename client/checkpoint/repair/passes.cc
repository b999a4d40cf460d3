#include "client/checkpoint/repair/passes.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

namespace fs = std::filesystem;

// Repairs of names reveal further faults, and repairing those may reveal
// others.
constexpr int kMostPasses = 4;

bool IsAmong(const std::vector<Repaired>& done, const Repaired& r) {
  return std::any_of(done.begin(), done.end(), [&](const Repaired& d) {
    return d.rule == r.rule && d.where == r.where && d.text == r.text;
  });
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(
      errno,
      fmt::format(
          "cannot rename {} to {}; \".next\" marks the further repaired model",
          from, to));
}

absl::Status TakePlace(const std::string& next, const std::string& out) {
  // Replaces a single file atomically.
  std::error_code error;
  if (!fs::is_directory(out, error)) return Rename(next, out);
  const std::string previous = Beside(out, ".previous");
  if (fs::exists(fs::symlink_status(previous, error))) {
    return absl::AlreadyExistsError(
        fmt::format("{} already exists; {} holds the further repaired model",
                    previous, next));
  }
  if (auto s = Rename(out, previous); !s.ok()) return s;
  if (auto s = Rename(next, out); !s.ok()) return s;
  fs::remove_all(previous, error);
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(),
                             fmt::format("cannot remove {}", previous));
}

}  // namespace

absl::StatusOr<RepairOutcome> RepairInPasses(const Model& model,
                                             const Model* original,
                                             const RepairPlan& first,
                                             const std::string& said) {
  RepairOutcome outcome;
  auto fitted = Repair(model, first, said);
  if (!fitted.ok()) return fitted.status();
  outcome.fitted = *std::move(fitted);
  outcome.repairs = first.repairs;
  std::error_code error;
  std::string out = fs::weakly_canonical(said, error).string();
  if (error) return absl::ErrnoToStatus(error.value(), said);
  if (out.ends_with('/')) out.pop_back();
  for (int pass = 1; pass < kMostPasses; ++pass) {
    const auto mended = Model::Open(out);
    if (!mended.ok()) return mended.status();
    const auto plan = PlanRepair(*mended, original, first.dialect);
    if (!plan.ok()) return plan.status();
    const bool fresh = std::any_of(
        plan->repairs.begin(), plan->repairs.end(),
        [&](const Repaired& r) { return !IsAmong(outcome.repairs, r); });
    if (!fresh) break;
    const std::string next = Beside(out, ".next");
    auto more = Repair(*mended, *plan, next);
    if (!more.ok()) return more.status();
    if (auto s = TakePlace(next, out); !s.ok()) return s;
    outcome.fitted.insert(outcome.fitted.end(), more->begin(), more->end());
    for (const Repaired& r : plan->repairs) {
      if (!IsAmong(outcome.repairs, r)) outcome.repairs.push_back(r);
    }
  }
  return outcome;
}

std::string Beside(std::string path, std::string_view what) {
  constexpr std::string_view kEnding = ".safetensors";
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const bool file = path.ends_with(kEnding);
  if (file) path.resize(path.size() - kEnding.size());
  return fmt::format("{}{}{}", path, what, file ? kEnding : "");
}

absl::Status RemoveOutput(const std::string& out) {
  std::error_code error;
  fs::remove_all(out, error);
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(),
                             fmt::format("cannot remove {}", out));
}

}  // namespace quantd::checkpoint
