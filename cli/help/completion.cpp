#include "cli/help/completion.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "cli/support/command.h"

namespace meshbus::cli {
namespace {

bool takes_value(const CLI::Option& option) {
  return option.get_type_size() != 0;
}

/// The fixed words among the values of an option, from how its type is shown: "one|all|rest",
/// "never|on-failure[:N]", "TEXT:{auto,cgroup}". Capital letters stand for what is to be filled in.
std::vector<Candidate> fixed_values(const CLI::Option& option) {
  std::string type = option.get_type_name();
  if (const auto set = type.find('{'); set != std::string::npos)
    type = type.substr(set + 1, type.find('}') - set - 1);
  std::vector<Candidate> values;
  std::string word;
  bool is_optional_part = false;
  for (const char c : type + "|") {
    if (c == '[') is_optional_part = true;
    if (c == '|' || c == ',') {
      const bool is_fixed = !word.empty() && std::none_of(word.begin(), word.end(), [](char one) {
        return std::isupper(static_cast<unsigned char>(one)) != 0 || one == ':';
      });
      if (is_fixed) values.push_back({word});
      word.clear();
      is_optional_part = false;
    } else if (!is_optional_part) {
      word += c;
    }
  }
  return values;
}

const CLI::Option* find_flag(const CLI::App& verb, const std::string& word) {
  return verb.get_option_no_throw(word.substr(0, word.find('=')));
}

/// The words of a command line, as far as they are whole, and what is missing.
class Reader {
 public:
  Reader(const CLI::App& app, const std::vector<std::string>& words, const LiveNames& live)
      : verb_(&app), words_(words), live_(live) {}

  Completion completion() {
    read();
    if (in_command_) return {.shell = Completion::Shell::command, .command_at = command_at_};
    const std::string& last = words_.back();
    if (flag_ != nullptr) return value_of(*flag_, last, "");
    if (last.starts_with("--") && last.find('=') != std::string::npos) {
      const auto* flag = find_flag(*verb_, last);
      if (flag == nullptr || !takes_value(*flag)) return {};
      const auto split = last.find('=') + 1;
      return value_of(*flag, last.substr(split), last.substr(0, split));
    }
    if (last.starts_with('-')) return flags(last);
    return argument(last);
  }

 private:
  /// Reads all words but the last one.
  void read() {
    for (std::size_t i = 0; i + 1 < words_.size(); ++i) {
      const auto& word = words_[i];
      if (flag_ != nullptr) {
        flag_ = nullptr;
      } else if (word == "--" && verb_->get_prefix_command()) {
        in_command_ = true;
        command_at_ = i + 1;
        return;
      } else if (word.starts_with('-')) {
        const auto* flag = find_flag(*verb_, word);
        if (flag != nullptr && takes_value(*flag) && word.find('=') == std::string::npos)
          flag_ = flag;
      } else if (const auto* below = find_command(*verb_, word)) {
        verb_ = below;
      } else {
        if (positional_ == 0) first_argument_ = word;
        ++positional_;
      }
    }
    if (verb_->get_prefix_command() && positional_ > 0) {
      in_command_ = true;
      command_at_ = words_.size() - 1 - positional_;
    }
  }

  Completion flags(const std::string& last) const {
    Completion found;
    for (const auto* option : verb_->get_options()) {
      for (const auto& name : option->get_lnames())
        found.candidates.push_back({"--" + name, option->get_description()});
    }
    if (verb_->get_prefix_command())
      found.candidates.push_back({"--", "The command of the ranks follows"});
    return keep(std::move(found), last, "");
  }

  Completion argument(const std::string& last) {
    Completion found;
    for (const auto* below : shown_commands(*verb_))
      found.candidates.push_back({below->get_name(), below->get_description()});
    if (!found.candidates.empty()) return keep(std::move(found), last, "");
    std::size_t at = 0;
    for (const auto* option : verb_->get_options()) {
      if (!option->get_positional()) continue;
      const bool is_last = option->get_expected_max() > 1;
      if (at == positional_ || (is_last && at < positional_)) return value_of(*option, last, "");
      ++at;
    }
    // What remains is a command line of its own, or nothing.
    if (verb_->get_prefix_command())
      return {.shell = Completion::Shell::command, .command_at = words_.size() - 1};
    return {};
  }

  /// `prefix`: what the word begins with before the value, like "--hosts=".
  Completion value_of(const CLI::Option& option, const std::string& begun,
                      const std::string& prefix) {
    const std::string name = option.get_positional() ? option.get_name(true) : option.get_name();
    const std::string type = option.get_type_name();
    Completion found{.candidates = fixed_values(option)};
    if (name == "MESH" || name == "RANKS" || name == "TARGET") return meshes(begun);
    if (name == "PLACES") return places(begun);
    if (name == "--rank") {
      found.candidates = live_.ranks(first_argument_);
    } else if (name == "--hosts") {
      found.candidates = live_.hosts();
      return keep_in_list(std::move(found), begun, prefix);
    } else if (name == "--context" || (name == "NAME" && is_of_context())) {
      found.candidates = live_.contexts();
    } else if (name == "COMMAND") {
      return commands(begun);
    } else if (type.starts_with("FILE") || type.starts_with("PATH") || type.starts_with("DIR")) {
      found.shell = Completion::Shell::files;
    }
    return keep(std::move(found), begun, prefix);
  }

  bool is_of_context() const {
    const auto* above = verb_->get_parent();
    return above != nullptr && above->get_name() == "context" && verb_->get_name() != "add";
  }

  /// A file here, or a mesh whose ranks have one: what is behind its colon only they know.
  Completion places(const std::string& begun) {
    if (begun.find(':') != std::string::npos) return {};
    Completion found{.candidates = live_.meshes(true), .shell = Completion::Shell::files};
    for (auto& one : found.candidates) one.word += ':';
    return keep(std::move(found), begun, "");
  }

  /// A mesh, or with a bracket its ranks.
  Completion meshes(const std::string& begun) {
    const auto bracket = begun.find('[');
    if (bracket == std::string::npos) {
      const auto verb = verb_->get_name();
      const bool is_live_only = verb == "stop" || verb == "grow" || verb == "shrink" ||
                                verb == "signal" || verb == "exec" || verb == "drain" ||
                                verb == "call" || verb == "cast" || verb == "config";
      return keep({.candidates = live_.meshes(is_live_only)}, begun, "");
    }
    Completion found;
    for (auto& one : live_.ranks(begun.substr(0, bracket)))
      found.candidates.push_back({one.word + "]", std::move(one.meaning)});
    return keep(std::move(found), begun.substr(bracket + 1), begun.substr(0, bracket + 1));
  }

  /// Commands of the whole program, for `meshbus help`.
  Completion commands(const std::string& begun) const {
    const auto* top = verb_;
    while (top->get_parent() != nullptr) top = top->get_parent();
    Completion found;
    for (const auto* verb : shown_commands(*top))
      found.candidates.push_back({verb->get_name(), verb->get_description()});
    return keep(std::move(found), begun, "");
  }

  /// The candidates that go on from what was begun, written behind `prefix`.
  static Completion keep(Completion found, std::string_view begun, const std::string& prefix) {
    auto& all = found.candidates;
    std::erase_if(all, [&](const Candidate& one) { return !one.word.starts_with(begun); });
    for (auto& one : all) one.word = prefix + one.word;
    return found;
  }
  /// The same for the last element of a list with commas.
  static Completion keep_in_list(Completion found, const std::string& begun,
                                 const std::string& prefix) {
    const auto comma = begun.rfind(',');
    const auto split = comma == std::string::npos ? 0 : comma + 1;
    return keep(std::move(found), begun.substr(split), prefix + begun.substr(0, split));
  }

  const CLI::App* verb_;
  const std::vector<std::string>& words_;
  const LiveNames& live_;
  /// The flag whose value comes next.
  const CLI::Option* flag_ = nullptr;
  std::size_t positional_ = 0;
  std::string first_argument_;
  bool in_command_ = false;
  std::size_t command_at_ = 0;
};

}  // namespace

Completion complete(const CLI::App& app, const std::vector<std::string>& words,
                    const LiveNames& live) {
  if (words.empty()) return complete(app, {""}, live);
  return Reader(app, words, live).completion();
}

}  // namespace meshbus::cli
