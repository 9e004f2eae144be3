#include "tests/bench/nats.h"

#include "tests/bench/end.h"
#include "tests/bench/program.h"

namespace meshbus::bench {

Nats::Nats(Comparison& comparison)
    : has_server_(find_in_path("nats-server").has_value()),
      has_library_(has_server_ && has_nats_library()) {
  if (!has_server_)
    comparison.leave_out("nats bare, nats library",
                         "nats-server is not installed (package nats-server)");
  if (has_server_ && !has_library_)
    comparison.leave_out("nats library", "built without it (package libnats-dev)");
}

void Nats::add_to(std::vector<Side>& sides, Between between, const std::string& prefix,
                  const std::string& about,
                  const std::function<Figures(const Way&)>& measure) const {
  const auto add = [&](const char* name, const char* how, Transport transport) {
    sides.push_back(
        {prefix + name, Part::peer, about + how, [=] { return measure(Way{transport, between}); }});
  };
  if (has_server_) add("nats bare", ", bare sockets", Transport::nats);
  if (has_library_) add("nats library", ", its C library", Transport::nats_library);
}

}  // namespace meshbus::bench
