#include "client/quantctl/top/top.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/quantctl/flags.h"
#include "client/quantctl/top/fleet.h"
#include "client/quantctl/top/table.h"
#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{2000};

struct TopOptions {
  std::vector<std::string> targets = {"127.0.0.1:9151"};
  double interval = 2;  // seconds
  bool once = false;
};

// Where each table goes over the one before. It moves the cursor and sets no
// mode, so that there is nothing to put back however the program ends.
class Screen {
 public:
  void Show(std::vector<std::string> lines) {
    const size_t most = Rows();
    if (lines.size() > most) lines.resize(most);
    if (shown_ > 0) fmt::print("\x1b[{}A\r\x1b[J", shown_);
    for (const std::string& line : lines) fmt::print("{}\n", line);
    std::fflush(stdout);
    shown_ = lines.size();
  }

 private:
  static size_t Rows() {
    winsize size = {};
    const bool known =
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 2;
    return known ? size.ws_row - 1 : 23;
  }

  size_t shown_ = 0;
};

int RunTop(const Options& options, const TopOptions& top) {
  Fleet fleet(top.targets);
  Screen screen;
  const bool live = !options.json && isatty(STDOUT_FILENO) == 1;
  const auto interval = milliseconds(static_cast<int64_t>(top.interval * 1e3));
  // What it does a second takes two looks.
  fleet.Look(kPatience);
  while (true) {
    std::this_thread::sleep_for(interval);
    const std::vector<ServerRow> rows = fleet.Look(kPatience);
    if (options.json) {
      fmt::print("{}\n", TopJson(rows));
    } else if (live) {
      screen.Show(TopTable(rows));
    } else {
      for (const std::string& line : TopTable(rows)) fmt::print("{}\n", line);
    }
    // Who reads no more has it end.
    if (std::fflush(stdout) != 0) return kCannotWrite;
    if (!top.once) continue;
    const bool answered =
        std::any_of(rows.begin(), rows.end(),
                    [](const ServerRow& row) { return row.error.ok(); });
    return answered ? kOk : kUnreachable;
  }
}

}  // namespace

void AddTop(CLI::App* app, Options* o,
            std::function<int(const Options&)>* run) {
  const auto top = std::make_shared<TopOptions>();
  CLI::App* sub = app->add_subcommand(
      "top", "Show what servers are doing, from their metrics pages");
  sub->callback([run, top] {
    *run = [top](const Options& options) { return RunTop(options, *top); };
  });
  sub->add_option("targets", top->targets,
                  "HOST:PORT of --metrics-address; a DNS name may stand for "
                  "many servers (default 127.0.0.1:9151)")
      ->type_name("HOST:PORT");
  sub->add_option("--interval", top->interval,
                  "Seconds between two looks (default 2)")
      ->check(CLI::Range(0.1, 3600.0))
      ->type_name("SECONDS");
  sub->add_flag("--once", top->once, "Show one table, and end");
  AddJson(sub, o);
}

}  // namespace quantd::quantctl
