// Leases of actors at a host agent (spec 5.4).
#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

#include "agent/host/ownership/actor_leases.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::host;

TEST_CASE(
    "host: leases of actors: what nobody renews lapses once, what is renewed lives, and what never "
    "had a lease has none") {
  Reactor reactor;
  std::vector<std::string> lapsed;
  ActorLeases leases(reactor, [&](const std::string& mesh, const std::string& actor,
                                  std::chrono::milliseconds length) {
    lapsed.push_back(mesh + " " + actor + " " + std::to_string(length.count()));
  });
  CHECK(ActorLeases::is_meant("work-13Se1Maqzryj,tally"));
  CHECK_FALSE(ActorLeases::is_meant("work-13Se1Maqzryj"));
  CHECK(ActorLeases::mesh_of("work-13Se1Maqzryj,tally") == "work-13Se1Maqzryj");
  REQUIRE(leases.renew("work,tally", 50ms).has_value());
  REQUIRE(leases.renew("work,kept", 1h).has_value());
  REQUIRE(leases.renew("work,none", 0ms).has_value());
  CHECK(leases.size() == 2);
  const auto end = std::chrono::steady_clock::now() + 10s;
  while (lapsed.empty() && std::chrono::steady_clock::now() < end) reactor.turn(20ms);
  CHECK(lapsed == std::vector<std::string>{"work tally 50"});
  CHECK(leases.size() == 1);
  // 0: as long as before.
  REQUIRE(leases.renew("work,kept", 0ms).has_value());
  reactor.turn(20ms);
  CHECK(lapsed.size() == 1);
}

TEST_CASE("host: leases of actors: there is an end to how many a host has") {
  Reactor reactor;
  ActorLeases leases(reactor,
                     [](const std::string&, const std::string&, std::chrono::milliseconds) {});
  for (std::size_t i = 0; i < ActorLeases::kMost; ++i)
    REQUIRE(leases.renew("work," + std::to_string(i), 1h).has_value());
  CHECK(leases.renew("work,other", 1h).error().code() == ErrorCode::queue_full);
  CHECK(leases.renew("work,0", 1h).has_value());
}
