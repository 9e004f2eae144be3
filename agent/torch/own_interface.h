#pragma once

#include <string>
#include <string_view>

namespace meshbus::torch {

/// The network interface of this machine that has the address of `host` (a name or a number), or
/// else the one by which `master` is reached. Empty when that is the loopback interface, or none: a
/// name that resolves to 127.0.1.1 says nothing.
std::string find_own_interface(std::string_view host, std::string_view master);

}  // namespace meshbus::torch
