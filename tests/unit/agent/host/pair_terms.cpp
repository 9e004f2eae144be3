// The terms that a host grants to the controllers of a pair.
#include <doctest/doctest.h>

#include "tests/unit/agent/host/pair_world.h"

namespace meshbus::test::pair_world {

inline std::string refusal_of(const Result<void>& result) {
  return result ? std::string() : result.error().detail();
}

TEST_CASE("pair_terms: a term is granted to one controller, while its lease runs to no other") {
  const Time kBegin{100s};
  PairTerm term(kBegin - 1h);
  CHECK(term.claim(claim_of(1, 1, TermStep::ask), kBegin).has_value());
  CHECK(term.claim(claim_of(1, 1, TermStep::act), kBegin + 10ms).has_value());
  CHECK(term.is_acting());
  CHECK(refusal_of(term.claim(claim_of(2, 2, TermStep::ask), kBegin + 1009ms)) ==
        "term 1 is held by tcp:h1:7420,controller for another 1 ms");
  CHECK(term.claim(claim_of(2, 2, TermStep::ask), kBegin + 1010ms).has_value());
  CHECK_FALSE(term.is_acting());
  CHECK_FALSE(term.claim(claim_of(1, 1, TermStep::act), kBegin + 1011ms).has_value());
  // The other one may have no majority: then this one goes on.
  CHECK(term.check(101, 1).error().code() == ErrorCode::would_block);
  // Not before it acts; but that it does may be under way.
  const auto early = term.check(102, 2);
  REQUIRE_FALSE(early.has_value());
  CHECK(early.error().code() == ErrorCode::would_block);
  REQUIRE(term.claim(claim_of(2, 2, TermStep::act), kBegin + 1020ms).has_value());
  CHECK(term.check(102, 2).has_value());
  CHECK(refusal_of(term.check(101, 1)) ==
        "term 1 is over: term 2 is held by tcp:h2:7420,controller");
  const auto unknown = term.check(101, 3);
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().code() == ErrorCode::would_block);
}

TEST_CASE("pair_terms: a term that was granted already comes too late for another controller") {
  const Time kBegin{100s};
  PairTerm term(kBegin - 1h);
  REQUIRE(term.claim(claim_of(1, 5, TermStep::ask), kBegin).has_value());
  CHECK_FALSE(term.claim(claim_of(2, 5, TermStep::ask), kBegin + 2s).has_value());
  CHECK_FALSE(term.claim(claim_of(2, 4, TermStep::ask), kBegin + 2s).has_value());
  CHECK(term.claim(claim_of(2, 6, TermStep::ask), kBegin + 2s).has_value());
}

TEST_CASE("pair_terms: what a majority has granted counts where a candidate waits") {
  const Time kBegin{100s};
  PairTerm term(kBegin - 1h);
  REQUIRE(term.claim(claim_of(1, 5, TermStep::ask), kBegin).has_value());
  CHECK_FALSE(term.claim(claim_of(2, 5, TermStep::act), kBegin + 1ms).has_value());
  // It will have a later term: its orders are to be asked for again.
  CHECK(term.check(102, 5).error().code() == ErrorCode::would_block);
  CHECK(term.check(102, 4).error().code() == ErrorCode::would_block);
  CHECK(term.claim(claim_of(2, 6, TermStep::act), kBegin + 1ms).has_value());
  CHECK(term.is_acting());
  CHECK(term.holder()->controller == controller_named(2));
}

TEST_CASE("pair_terms: what a controller ordered before another one acted comes too late") {
  const Time kBegin{100s};
  PairTerm term(kBegin - 1h);
  REQUIRE(term.claim(claim_of(1, 4, TermStep::act), kBegin).has_value());
  REQUIRE(term.claim(claim_of(1, 5, TermStep::act), kBegin + 1ms).has_value());
  CHECK(term.check(101, 4).has_value());  // Nobody else has acted since.
  REQUIRE(term.claim(claim_of(2, 6, TermStep::act), kBegin + 2s).has_value());
  REQUIRE(term.claim(claim_of(1, 7, TermStep::act), kBegin + 4s).has_value());
  CHECK(term.check(101, 5).error().code() == ErrorCode::would_block);
  CHECK(term.check(101, 7).has_value());
  // The agent after this one does not know how long the holder has held it.
  const auto left = term.to_ledger("p");
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::LedgerTerm::Pack(builder, &left));
  const PairTerm after(*flatbuffers::GetRoot<wire::LedgerTerm>(builder.GetBufferPointer()),
                       kBegin + 5s);
  CHECK(after.check(101, 7).has_value());
  CHECK(after.check(101, 6).error().code() == ErrorCode::would_block);
}

TEST_CASE("pair_terms: given up, a term is free at once") {
  const Time kBegin{100s};
  PairTerm term(kBegin - 1h);
  REQUIRE(term.claim(claim_of(1, 1, TermStep::act), kBegin).has_value());
  CHECK_FALSE(term.claim(claim_of(2, 1, TermStep::give_up), kBegin).has_value());
  CHECK(term.claim(claim_of(1, 1, TermStep::give_up), kBegin + 1ms).has_value());
  CHECK(term.claim(claim_of(2, 2, TermStep::ask), kBegin + 2ms).has_value());
}

TEST_CASE("pair_terms: a host that has just started grants nothing for the length of a lease") {
  const Time kBegin{100s};
  PairTerm term(kBegin);
  CHECK(refusal_of(term.claim(claim_of(1, 1, TermStep::ask), kBegin + 400ms)) ==
        "this host has just started and may have granted a term before: it grants one in 600 ms");
  CHECK(term.wait(kTermLease, kBegin + 400ms) == 600ms);
  CHECK(term.claim(claim_of(1, 1, TermStep::ask), kBegin + 1s).has_value());
  // A majority of others has granted that.
  PairTerm told(kBegin);
  CHECK(told.claim(claim_of(1, 1, TermStep::act), kBegin + 1ms).has_value());
}

TEST_CASE("pair_terms: controllers of one pair have the same hosts") {
  const Time kBegin{100s};
  PairTerm term(kBegin - 1h);
  REQUIRE(term.claim(claim_of(1, 1, TermStep::act), kBegin).has_value());
  auto other = claim_of(2, 9, TermStep::act);
  other.hosts = kHostsDigest + 1;
  CHECK(
      refusal_of(term.claim(other, kBegin + 1ms)).find("all controllers of a pair need the same") !=
      std::string::npos);
}

TEST_CASE("pair_terms: what those own that have acted before is known by name, not by candidacy") {
  const Time kBegin{100s};
  PairTerm term(kBegin - 1h);
  REQUIRE(term.claim(claim_of(1, 1, TermStep::act), kBegin).has_value());
  REQUIRE(term.claim(claim_of(2, 2, TermStep::ask), kBegin + 2s).has_value());
  REQUIRE(term.claim(claim_of(3, 3, TermStep::act), kBegin + 4s).has_value());
  CHECK(term.is_former(controller_named(1), 101));
  CHECK(term.is_former(controller_named(1), 0));
  // Another controller by that name is none of this pair.
  CHECK_FALSE(term.is_former(controller_named(1), 55));
  CHECK_FALSE(term.is_former(controller_named(2), 0));
  CHECK_FALSE(term.is_former(controller_named(3), 0));
  const auto left = term.to_ledger("p");
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::LedgerTerm::Pack(builder, &left));
  const PairTerm next(*flatbuffers::GetRoot<wire::LedgerTerm>(builder.GetBufferPointer()),
                      kBegin + 5s);
  CHECK(next.number() == 3);
  CHECK(next.is_acting());
  CHECK(next.is_former(controller_named(1), 101));
  CHECK(next.left(kBegin + 5s) == kTermLease);
}

}  // namespace meshbus::test::pair_world
