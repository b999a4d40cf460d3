#include "client/quantctl/usage.h"

#include <algorithm>
#include <numeric>

#include "fmt/format.h"

namespace quantd::quantctl {
namespace {

// Letters to add, to drop or to change (Levenshtein).
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t k = 0; k < b.size(); ++k) {
      const size_t change = diagonal + (a[i] == b[k] ? 0 : 1);
      diagonal = row[k + 1];
      row[k + 1] = std::min({change, row[k] + 1, row[k + 1] + 1});
    }
  }
  return row.back();
}

std::string Question(const std::string& guess) {
  return guess.empty() ? "" : fmt::format("Did you mean '{}'?", guess);
}

}  // namespace

std::string Closest(std::string_view word,
                    const std::vector<std::string>& candidates) {
  std::string closest;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& c : candidates) {
    const size_t distance = Distance(word, c);
    if (distance >= least) continue;
    least = distance;
    closest = c;
  }
  return closest;
}

std::string Suggestion(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> commands;
  const CLI::App* command = nullptr;
  for (const CLI::App* sub :
       app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(sub->get_name());
  }
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (command == nullptr) {
      if (word.empty() || word.front() == '-') continue;
      if (std::find(commands.begin(), commands.end(), word) == commands.end()) {
        const std::string question = Question(Closest(word, commands));
        return fmt::format("There is no command '{}'.{}{}", word,
                           question.empty() ? "" : " ", question);
      }
      command = app.get_subcommand(word);
      continue;
    }
    if (word == "--") break;
    if (word.substr(0, 2) != "--") continue;
    const std::string flag = word.substr(0, word.find('='));
    if (command->get_option_no_throw(flag) != nullptr) continue;
    std::vector<std::string> flags;
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        flags.push_back("--" + name);
      }
    }
    return Question(Closest(flag, flags));
  }
  return "";
}

}  // namespace quantd::quantctl
