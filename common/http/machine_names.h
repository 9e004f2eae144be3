#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meshbus::http {

/// The names that this machine has, in small letters: its own, the same in each domain that its
/// resolver searches, and those on its lines of /etc/hosts. DNS is not asked: an attacker can make
/// it name any machine. Empty: the kernel knows no name. Reads the files at each call.
std::vector<std::string> machine_names();
/// The same, of a machine of that name with these contents of /etc/hosts and /etc/resolv.conf.
/// Pure.
std::vector<std::string> machine_names(std::string_view machine, std::string_view hosts,
                                       std::string_view resolver);

}  // namespace meshbus::http
