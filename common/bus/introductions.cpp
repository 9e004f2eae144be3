#include "common/bus/introductions.h"

#include <chrono>
#include <utility>

#include "common/base/log.h"
#include "common/bus/postbox.h"
#include "common/bus/requests.h"
#include "wire/bus_generated.h"

namespace meshbus {

void Introductions::introduce(const Destination& to) {
  if (to.host == 0 || to.host_text.empty() || to.host == postbox_.own_host() ||
      !hosts_.emplace(to.host, to.host_text).second)
    return;
  postbox_.set_known(to.host, true);
  send(to.host, to.host_text);
}

void Introductions::repeat() {
  for (const auto& [key, host] : hosts_) send(key, host);
}

void Introductions::forget(std::uint64_t host) {
  postbox_.set_known(host, false);
  hosts_.erase(host);
}

void Introductions::send(std::uint64_t key, const std::string& host) {
  wire::IntroduceT introduce;
  introduce.host = host;
  requests_.request(Destination::to_broker(), std::move(introduce), std::chrono::seconds(10),
                    [this, key](const Result<ControlMessage>& answer) {
                      // After fate_unknown repeat() tells the next session.
                      if (answer || answer.error().code() == ErrorCode::fate_unknown) return;
                      forget(key);
                      log::debug("bus: introduce: " + answer.error().to_string());
                    });
}

}  // namespace meshbus
