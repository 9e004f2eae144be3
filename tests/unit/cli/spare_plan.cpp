// Which hosts the attempts of a job run on (spec 18.1).
#include "cli/run/spare_plan.h"

#include <doctest/doctest.h>

using namespace std::chrono_literals;
using meshbus::cli::SparePlan;
using Hosts = std::vector<std::uint64_t>;

namespace {

const SparePlan::Time start = SparePlan::Time() + 100s;

}  // namespace

TEST_CASE("spare plan: a spare takes the place of a lost host, and the others keep theirs") {
  SparePlan plan(5, 3, 3);
  CHECK(plan.choose() == Hosts{0, 1, 2});
  plan.lose(1, start);
  CHECK(plan.left() == 4);
  CHECK(plan.choose() == Hosts{0, 3, 2});
  plan.lose(3, start);
  plan.lose(0, start);
  CHECK(plan.left() == 2);
  CHECK_FALSE(plan.is_enough());
  CHECK(plan.choose() == std::nullopt);
}

TEST_CASE("spare plan: a lost spare is not chosen") {
  SparePlan plan(4, 2, 2);
  plan.lose(2, start);
  plan.lose(0, start);
  CHECK(plan.choose() == Hosts{3, 1});
}

TEST_CASE("spare plan: without spares the hosts close up, down to the least number") {
  SparePlan plan(3, 3, 2);
  plan.lose(1, start);
  CHECK(plan.choose() == Hosts{0, 2});
  plan.lose(2, start);
  CHECK(plan.choose() == std::nullopt);
}

TEST_CASE("spare plan: a host that is set aside is used again when it is taken back") {
  SparePlan plan(3, 2, 2);
  plan.set_aside(0);
  CHECK(plan.left() == 2);
  CHECK(plan.choose() == Hosts{2, 1});
  plan.set_aside(1);
  CHECK_FALSE(plan.is_enough());
  CHECK(plan.choose() == std::nullopt);
  plan.take_back(0);
  CHECK(plan.choose() == Hosts{2, 0});
  // One that is lost, too, counts once.
  plan.lose(1, start);
  CHECK(plan.left() == 2);
  plan.take_back(1);
  CHECK(plan.left() == 2);
  CHECK(plan.clear_at() == start);
}

TEST_CASE("spare plan: a job that went on smaller grows with the next attempt") {
  SparePlan plan(2, 2, 1);
  plan.set_aside(1);
  CHECK(plan.choose() == Hosts{0});
  plan.take_back(1);
  CHECK(plan.choose() == Hosts{0, 1});
}

TEST_CASE("spare plan: the next attempt waits for each lost host that may still run something") {
  SparePlan plan(6, 3, 3);
  CHECK(plan.clear_at() == SparePlan::Time());
  plan.lose(0, start + 5s);
  plan.lose(1, start + 9s);
  CHECK(plan.clear_at() == start + 9s);
  // A second word of the same loss changes nothing.
  plan.lose(1, start + 60s);
  CHECK(plan.clear_at() == start + 9s);
  plan.confirm_end(1);
  CHECK(plan.clear_at() == start + 5s);
  plan.confirm_end(0);
  CHECK(plan.clear_at() == SparePlan::Time());
  CHECK(plan.is_lost(0));
}

TEST_CASE("spare plan: a lost host that comes back is used when too few others are left") {
  SparePlan plan(4, 2, 2);
  plan.lose(0, start);
  // Two others are left, and they have not been lost.
  CHECK(plan.is_full());
  CHECK_FALSE(plan.come_back(0));
  CHECK(plan.choose() == Hosts{2, 1});
  plan.lose(1, start);
  plan.refuse(3);
  CHECK_FALSE(plan.is_full());
  CHECK(plan.may_grow());
  // One that is not fit for the job is not, however often it answers.
  CHECK_FALSE(plan.come_back(3));
  CHECK(plan.come_back(0));
  CHECK_FALSE(plan.come_back(0));
  CHECK(plan.choose() == Hosts{2, 0});
  // What it had before may run until then.
  CHECK(plan.clear_at() == start);
}

TEST_CASE("spare plan: nothing can come when only unfit hosts are missing") {
  SparePlan plan(2, 2, 1);
  plan.refuse(0);
  CHECK_FALSE(plan.may_grow());
  plan.set_aside(1);
  CHECK(plan.may_grow());
}

TEST_CASE("spare plan: a least number above what is used, or of zero, is mended") {
  CHECK(SparePlan(4, 2, 9).choose() == Hosts{0, 1});
  SparePlan plan(1, 1, 0);
  plan.lose(0, start);
  CHECK(plan.choose() == std::nullopt);
}
