#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/result.h"

namespace meshbus::cli {

/// A key of a job file, as the flag of `meshbus run` that it stands for.
struct JobFileEntry {
  std::string key;  ///< "restart"
  std::uint32_t line = 0;
  std::vector<std::string> words;  ///< "--restart=on-failure:3"; none: the flag is not set.
};

/// A variable of ranks.
struct JobFileVariable {
  std::string name;
  std::optional<std::string> value;  ///< Nothing: the one that the launcher has.
  std::uint32_t line = 0;

  bool operator==(const JobFileVariable&) const = default;
};

/// [roles.NAME]
struct JobFileRole {
  std::string name;
  std::uint32_t line = 0;
  std::vector<std::string> command;
  std::vector<JobFileVariable> environment;
  std::vector<JobFileEntry> entries;
};

/// The contents of a job file: TOML whose keys are the flags of `meshbus run`, without dashes in
/// front, and `command` or `shell`, and `env`. What the flags take is not checked here.
struct JobFile {
  std::string path;
  std::vector<JobFileVariable> environment;  ///< For all roles.
  std::vector<JobFileEntry> entries;         ///< For the job as a whole.
  std::vector<JobFileRole> roles;            ///< In the order in which they stand in the file.
};

/// Pure. Errors: parse_error, with "PATH:LINE: " in front and what would be right.
Result<JobFile> parse_job_file(std::string_view text, const std::string& path);
/// Reads it. Errors: io_error, and as above.
Result<JobFile> read_job_file(const std::string& path);

}  // namespace meshbus::cli
