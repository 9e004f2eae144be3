#include "broker/access/link_role.h"

#include <doctest/doctest.h>

#include "common/wire/control.h"
#include "wire/bus_generated.h"
#include "wire/frame_generated.h"
#include "wire/lifecycle_generated.h"

using namespace meshbus;
using wire::Role;

namespace {

wire::Envelope claim_of(std::uint64_t proc, Role claimed, wire::Kind kind = wire::Kind::control) {
  wire::Envelope envelope;
  envelope.mutate_source_proc(proc);
  envelope.mutate_role(claimed);
  envelope.mutate_kind(kind);
  return envelope;
}

const std::string kStopOrder = [] {
  wire::StopProcsT stop;
  stop.mesh = "train-13Se1Maqzryj";
  return encode_control({.id = 1}, std::move(stop));
}();
const std::string kGoneReport = [] {
  wire::GoneT gone;
  gone.proc = "unix:/a,b-13Se1Maqzryj";
  return encode_control({.id = 1}, std::move(gone));
}();
const std::string kAnAnswer = encode_control({.id = 1, .is_answer = true}, wire::AckT());

}  // namespace

TEST_CASE("link_role: a broker vouches for operators, its one agent, and itself") {
  constexpr bool agent = true;
  CHECK(role_over_link(claim_of(7, Role::operate), kStopOrder, !agent, Role::operate) ==
        Role::operate);
  CHECK(role_over_link(claim_of(7, Role::host), kStopOrder, !agent, Role::operate) ==
        Role::operate);
  CHECK(role_over_link(claim_of(7, static_cast<Role>(200)), kStopOrder, !agent, Role::operate) ==
        Role::operate);
  CHECK(role_over_link(claim_of(7, Role::host), kStopOrder, agent, Role::operate) == Role::host);
  CHECK(role_over_link(claim_of(0, Role::none), kGoneReport, !agent, Role::operate) ==
        Role::broker);
}

TEST_CASE("link_role: nothing is asked for above the ceiling of the host's key") {
  constexpr bool agent = true;
  for (const Role ceiling : {Role::observe, Role::proc}) {
    // Operators, agents and brokers that order something.
    CHECK(role_over_link(claim_of(7, Role::operate), kStopOrder, !agent, ceiling) == ceiling);
    CHECK(role_over_link(claim_of(7, Role::host), kStopOrder, agent, ceiling) == ceiling);
    CHECK(role_over_link(claim_of(0, Role::broker), kStopOrder, !agent, ceiling) == ceiling);
    CHECK(role_over_link(claim_of(7, Role::host), "no control message", agent, ceiling) == ceiling);
    CHECK(role_over_link(claim_of(7, Role::host, wire::Kind::message), kGoneReport, agent,
                         ceiling) == ceiling);
    // An answer of an operator proves nothing that a proc's does not.
    CHECK(role_over_link(claim_of(7, Role::operate), kAnAnswer, !agent, ceiling) == ceiling);
    // What they report of their own host is believed.
    CHECK(role_over_link(claim_of(7, Role::host), kAnAnswer, agent, ceiling) == Role::host);
    CHECK(role_over_link(claim_of(0, Role::broker), kGoneReport, !agent, ceiling) == Role::broker);
    CHECK(role_over_link(claim_of(7, Role::observe), kStopOrder, !agent, ceiling) == Role::observe);
  }
}
