#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/address/host_range.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

/// Hosts as people write them: on the command line, in a file, in the environment, in a context.
namespace meshbus::cli {

/// What was said about hosts on the command line: at most one of them.
struct HostsSaid {
  std::string list;     ///< --hosts
  std::string file;     ///< --hostfile
  std::string context;  ///< --context
  bool is_empty() const { return list.empty() && file.empty() && context.empty(); }
};

/// One host as it was written, ranges written out, and where: "--hosts", "hostfile /etc/hosts.mesh,
/// line 3".
struct HostWord {
  std::string text;
  std::string source;
  bool operator==(const HostWord&) const = default;
};

/// A list of hosts, and what else belongs to it. A plain value.
struct HostList {
  std::vector<HostWord> words;
  /// "--hosts", "hostfile FILE", "MESHBUS_HOSTS", "context NAME".
  std::string source;
  /// The settings of the context, as --set would give them.
  std::vector<std::pair<std::string, std::string>> settings;
};

/// The hosts of a file: a list like the above on each line, comments from # on. Errors:
/// configuration_error naming the line.
Result<std::vector<HostWord>> parse_hostfile(std::string_view text, const std::string& path);

/// The hosts said on the command line, else in MESHBUS_HOSTS. No words: in neither. Errors:
/// configuration_error naming the source; not_exist for a context that is not there.
Result<HostList> hosts_said(const HostsSaid& said);
/// Those of the context in use. No words: none is.
Result<HostList> hosts_in_use();
/// The hosts that are meant: the former, else the latter.
Result<HostList> choose_hosts(const HostsSaid& said);

/// Whether these are machines that hosts are to be started on: "ssh:h1,h2".
bool is_ssh(const HostList& list);

/// Errors: configuration_error, parse_error naming source and word.
Result<std::vector<HostAddr>> parse_hosts(const HostList& list);

}  // namespace meshbus::cli
