#include "client/quantctl/top/fleet.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "client/quantctl/top/fetch.h"

namespace quantd::quantctl {
namespace {

void Ask(std::chrono::milliseconds patience, ServerRow* row) {
  const auto page = FetchPage(row->address, patience);
  auto reading = page.ok() ? ReadPage(*page) : page.status();
  row->error = reading.status();
  if (reading.ok()) row->now = *std::move(reading);
}

}  // namespace

std::vector<ServerRow> Fleet::Look(std::chrono::milliseconds patience) {
  std::vector<ServerRow> rows;
  for (const std::string& target : targets_) {
    const auto addresses = Resolve(target);
    if (!addresses.ok()) {
      rows.push_back({target, addresses.status(), {}, {}});
      continue;
    }
    for (const std::string& address : *addresses) {
      rows.push_back({address, absl::OkStatus(), {}, {}});
    }
  }
  if (rows.size() > kMostServers) rows.resize(kMostServers);
  std::vector<std::thread> threads;
  for (ServerRow& row : rows) {
    if (row.error.ok()) threads.emplace_back([&] { Ask(patience, &row); });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<std::string, Reading> seen;
  for (ServerRow& row : rows) {
    if (!row.error.ok()) continue;
    if (const auto before = last_.find(row.address); before != last_.end()) {
      row.activity = Between(before->second, row.now);
    }
    seen[row.address] = row.now;
  }
  last_ = std::move(seen);
  return rows;
}

}  // namespace quantd::quantctl
