#include "agent/host/model/lease.h"

#include <doctest/doctest.h>

#include "common/loop/reactor.h"

namespace meshbus::host {
namespace {

using namespace std::chrono_literals;
const Lease::Time granted{100s};

TEST_CASE("lease: lapses when nobody renews it, on the caller's clock only") {
  Lease lease(granted, 60s);
  CHECK(lease.due() == granted + 60s);
  CHECK_FALSE(lease.has_lapsed(granted + 59999ms));
  lease.renew(granted + 50s, 0ms);
  CHECK_FALSE(lease.has_lapsed(granted + 60s));
  CHECK(lease.due() == granted + 110s);
  lease.renew(granted + 60s, 5s);
  CHECK_FALSE(lease.has_lapsed(granted + 65s));
  CHECK(lease.due() == granted + 65100ms);
  CHECK_FALSE(lease.has_lapsed(granted + 65099ms));
  CHECK(lease.has_lapsed(granted + 65100ms));
  CHECK(lease.length() == 5s);
}

TEST_CASE("lease: who was away when it was due hears first what has come meanwhile") {
  Lease lease(granted, 60s);
  CHECK_FALSE(lease.has_lapsed(granted + 60400ms));  // stopped, and going on since just now
  lease.renew(granted + 60401ms, 0ms);               // it had waited
  CHECK(lease.due() == granted + 120401ms);
  CHECK_FALSE(lease.has_lapsed(granted + 120401ms));
  CHECK(lease.has_lapsed(granted + 120501ms));
}

TEST_CASE("lease: none never lapses, and one can begin later") {
  Lease lease(granted, 0ms);
  CHECK_FALSE(lease.due().has_value());
  CHECK_FALSE(lease.has_lapsed(granted + 1000h));
  lease.renew(granted, 0ms);
  CHECK_FALSE(lease.due().has_value());
  lease.renew(granted, 1s);
  CHECK_FALSE(lease.has_lapsed(granted + 1s));
  CHECK(lease.has_lapsed(granted + 1100ms));
}

TEST_CASE("lease: whoever looks late was away itself, and gives everybody a fresh grace") {
  Lease lease(granted, 60s);
  CHECK_FALSE(lease.has_lapsed(granted + 90s));
  CHECK(lease.due() == granted + 92s);
  CHECK_FALSE(lease.has_lapsed(granted + 92s));
  CHECK(lease.has_lapsed(granted + 92100ms));
}

}  // namespace
}  // namespace meshbus::host
