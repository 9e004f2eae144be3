#pragma once

#include <string>

namespace meshbus {

/// A requester for people: "unix:/run/h.sock,tool" as it is. The name of a command or launcher is
/// drawn and tells nobody anything: "a command or launcher at unix:/run/h.sock".
/// `requester`: a ProcId, the role that asked, or empty.
std::string requester_text(const std::string& requester);

}  // namespace meshbus
