#include "client/src/launch/host_announcement.h"

#include <nlohmann/json.hpp>

namespace meshbus {

Result<HostAnnouncement> HostAnnouncement::parse(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto text = [&json](const char* key) {
    const auto found = json.is_object() ? json.find(key) : json.end();
    return json.is_object() && found != json.end() && found->is_string() ? found->get<std::string>()
                                                                         : std::string();
  };
  if (const auto error = text("error"); !error.empty())
    return fail(ErrorCode::malformed_message, error);
  auto host = HostAddr::parse(text("host"));
  if (!host) return fail(ErrorCode::malformed_message, "its ready line is not understood: " + line);
  return HostAnnouncement{std::move(*host), text("containment"), text("run_dir")};
}

}  // namespace meshbus
