#pragma once

#include <string_view>

#include "wire/codes_generated.h"

namespace meshbus {

/// "observer", "client", "operator", "host", "broker": what people call a role. Keys, the audit
/// trail and refusals use these words.
constexpr std::string_view word_of(wire::Role role) {
  switch (role) {
    case wire::Role::observe: return "observer";
    case wire::Role::proc: return "client";
    case wire::Role::operate: return "operator";
    case wire::Role::host: return "host";
    case wire::Role::broker: return "broker";
    default: return "nobody";
  }
}

}  // namespace meshbus
