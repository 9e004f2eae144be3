#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meshbus::hands {

/// In front of the names of variables that the agent gives the rank. With their own names they
/// would be variables of this process, which may have more rights than the rank: LD_PRELOAD.
inline constexpr std::string_view kOfRank = "MESHBUS_RANK:";
/// In front of those that the requester wants over them.
inline constexpr std::string_view kOverride = "MESHBUS_HANDS:";

/// The environment of a command beside a rank. Pure.
///
/// `of_process`: what the rank's process was started with; it is the rank's, unless that process is
/// shared by several ranks or a copy of a template: then its RANK or MESHBUS_MESH is another one.
/// `given`: this process's own, with those prefixes; the rest of it is not used. What lets a mesh
/// proc say hello is left out: it belongs to the rank.
std::vector<std::string> choose_environment(const std::vector<std::string>& of_process,
                                            const std::vector<std::string>& given);

}  // namespace meshbus::hands
