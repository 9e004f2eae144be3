#include "cli/run/job_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include <toml++/toml.h>

namespace meshbus::cli {
namespace {

constexpr std::size_t kLargestFile = 1 << 20;
/// Flags that are given again for each value; other arrays are lists with commas.
constexpr auto kRepeated = std::to_array<std::string_view>({"rlimit", "set"});

/// Reads one file; errors begin with the place in it.
class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  Result<JobFile> read(const toml::table& file) const {
    JobFile job;
    job.path = path_;
    const toml::table* roles = nullptr;
    for (const auto& [key, value] : file) {
      const std::string name(key.str());
      if (name == "roles") {
        roles = value.as_table();
        if (roles == nullptr)
          return refuse(value, "roles: takes a table for each role, [roles.NAME]");
      } else if (auto read = read_entry(name, value, job.environment, job.entries); !read) {
        return fail(read.error());
      }
    }
    if (roles == nullptr || roles->empty())
      return fail(ErrorCode::parse_error,
                  path_ +
                      ": there is no role in it; begin one with [roles.NAME] and give it a "
                      "command, command = [\"python3\", \"train.py\"]");
    for (const auto& [key, value] : *roles) {
      auto role = read_role(std::string(key.str()), value);
      if (!role) return fail(role.error());
      job.roles.push_back(std::move(*role));
    }
    by_line(job.entries);
    by_line(job.roles);
    return job;
  }

 private:
  template <typename Parts>
  static void by_line(Parts& parts) {
    std::stable_sort(parts.begin(), parts.end(),
                     [](const auto& a, const auto& b) { return a.line < b.line; });
  }

  tl::unexpected<Error> refuse(const toml::node& at, const std::string& why) const {
    return fail(ErrorCode::parse_error,
                path_ + ":" + std::to_string(at.source().begin.line) + ": " + why);
  }

  Result<JobFileRole> read_role(const std::string& name, const toml::node& value) const {
    const auto* const table = value.as_table();
    if (table == nullptr)
      return refuse(value, "roles." + name + ": takes a table, [roles." + name + "]");
    JobFileRole role{.name = name,
                     .line = value.source().begin.line,
                     .command = {},
                     .environment = {},
                     .entries = {}};
    for (const auto& [key, node] : *table) {
      const std::string own(key.str());
      if (own == "command" || own == "shell") {
        if (!role.command.empty())
          return refuse(node, in(name) + "has both command and shell: take one of them");
        auto command = own == "command" ? read_command(name, node) : read_shell(name, node);
        if (!command) return fail(command.error());
        role.command = std::move(*command);
      } else if (auto read = read_entry(own, node, role.environment, role.entries); !read) {
        return fail(read.error());
      }
    }
    if (role.command.empty())
      return refuse(value,
                    in(name) +
                        "has no program: add command = [\"python3\", \"train.py\"], or shell "
                        "= \"...\" for a line of sh");
    by_line(role.entries);
    return role;
  }

  static std::string in(const std::string& role) { return "[roles." + role + "] "; }

  Result<std::vector<std::string>> read_command(const std::string& role,
                                                const toml::node& node) const {
    const auto* const array = node.as_array();
    std::vector<std::string> words;
    for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
      const auto word = scalar(*array->get(i));
      if (!word) break;
      words.push_back(*word);
    }
    if (array == nullptr || words.empty() || words.size() != array->size() || words[0].empty())
      return refuse(node, in(role) +
                              "command: takes the program and its arguments, [\"python3\", "
                              "\"train.py\"]; shell = \"...\" takes a line of sh");
    return words;
  }

  Result<std::vector<std::string>> read_shell(const std::string& role,
                                              const toml::node& node) const {
    const auto line = node.value<std::string>();
    if (!node.is_string() || line->empty())
      return refuse(node, in(role) + "shell: takes a line of sh as a text");
    return std::vector<std::string>{"sh", "-c", *line};
  }

  Result<void> read_entry(const std::string& key, const toml::node& value,
                          std::vector<JobFileVariable>& environment,
                          std::vector<JobFileEntry>& entries) const {
    if (key == "env") return read_environment(value, environment);
    JobFileEntry entry{.key = key, .line = value.source().begin.line, .words = {}};
    const std::string flag = "--" + key;
    if (const auto* const array = value.as_array()) {
      std::string list;
      for (const auto& node : *array) {
        const auto text = scalar(node);
        if (!text) return refuse(node, key + ": takes texts and numbers in its list");
        if (std::find(kRepeated.begin(), kRepeated.end(), key) != kRepeated.end())
          entry.words.push_back(flag + "=" + *text);
        else
          list += (list.empty() ? "" : ",") + *text;
      }
      if (array->empty()) return refuse(value, key + ": is empty; leave it out");
      if (entry.words.empty()) entry.words.push_back(flag + "=" + list);
    } else if (value.is_boolean()) {
      if (*value.value<bool>()) entry.words.push_back(flag);
    } else if (const auto text = scalar(value)) {
      entry.words.push_back(flag + "=" + *text);
    } else {
      return refuse(value, key + ": takes a text, a number, true, false or a list of these");
    }
    entries.push_back(std::move(entry));
    return {};
  }

  Result<void> read_environment(const toml::node& value,
                                std::vector<JobFileVariable>& environment) const {
    const auto* const table = value.as_table();
    if (table == nullptr)
      return refuse(value, "env: takes a table of variables, env = { NAME = \"value\" }");
    for (const auto& [key, node] : *table) {
      const std::string name(key.str());
      const auto text = scalar(node);
      const bool is_passed = node.is_boolean() && *node.value<bool>();
      if (!text && !is_passed)
        return refuse(node, "env: " + name +
                                ": takes a text or a number; true passes on the value that it has "
                                "where the job is started");
      environment.push_back({name, text, node.source().begin.line});
    }
    return {};
  }

  /// A text or a number as a text.
  static std::optional<std::string> scalar(const toml::node& node) {
    if (node.is_string()) return node.value<std::string>();
    if (node.is_integer()) return std::to_string(*node.value<std::int64_t>());
    if (!node.is_floating_point()) return std::nullopt;
    std::ostringstream text;
    text << *node.value<double>();
    return text.str();
  }

  std::string path_;
};

}  // namespace

Result<JobFile> parse_job_file(std::string_view text, const std::string& path) {
  try {
    return Reader(path).read(toml::parse(text, path));
  } catch (const toml::parse_error& error) {
    const auto& at = error.source().begin;
    return fail(ErrorCode::parse_error,
                path + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) +
                    ": this is no TOML: " + std::string(error.description()));
  }
}

Result<JobFile> read_job_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  // A directory can be opened, and not read.
  if (file) {
    text.resize(kLargestFile + 1);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad() || !file.is_open() || errno != 0)
    return fail(ErrorCode::io_error,
                path + ": " + (errno != 0 ? std::strerror(errno) : "it cannot be read"));
  if (text.size() > kLargestFile)
    return fail(ErrorCode::parse_error, path + " is larger than 1 MiB: is it a job file?");
  return parse_job_file(text, path);
}

}  // namespace meshbus::cli
