#include <doctest/doctest.h>

#include "cli/support/selector.h"

using namespace meshbus;
using namespace meshbus::cli;

namespace {

ProcMeshRef trainers() {
  const auto mesh = ProcMeshRef::make(*Name::parse("trainers-13Se1Maqzryj"),
                                      {*HostAddr::parse("local:1"), *HostAddr::parse("local:2")},
                                      *Extent::parse("host=2,gpu=8"));
  REQUIRE(mesh.has_value());
  return *mesh;
}

/// The create ranks that are meant, view by view.
std::string selected(const std::string& text) {
  const auto selector = Selector::parse(text);
  if (!selector) return selector.error().detail();
  const auto views = selector->select(trainers());
  if (!views) return views.error().detail();
  std::string ranks = selector->mesh + ":";
  for (const auto& view : *views) {
    for (std::uint64_t i = 0; i < view.num_ranks(); ++i)
      ranks += " " + std::to_string(*view.create_rank(i));
    ranks += ";";
  }
  return ranks;
}

}  // namespace

TEST_CASE("selector: a mesh, ranks of it, or a slice") {
  CHECK(selected("trainers[0-2,7]") == "trainers: 0 1 2; 7;");
  CHECK(selected("trainers[7,1,0-2,3]") == "trainers: 0 1 2 3; 7;");
  CHECK(selected("trainers-13Se1Maqzryj[15]") == "trainers-13Se1Maqzryj: 15;");
  CHECK(selected("trainers:7") == "trainers: 7;");
  CHECK(selected("trainers-13Se1Maqzryj/0") == "trainers-13Se1Maqzryj: 0;");
  CHECK(selected("trainers/20") == "mesh trainers-13Se1Maqzryj has no rank 20; its ranks are 0-15");
  CHECK(Selector::parse("trainers/x")->mesh == "trainers/x");
  CHECK(Selector::parse("/7")->mesh == "/7");
  CHECK(selected("[8-9]") == ": 8 9;");
  CHECK(selected("trainers[host=1,gpu=0:4]") == "trainers: 8 9 10 11;");
  CHECK(selected("host=1,gpu=0:4:2") == ": 8 10;");
  CHECK(selected("gpu=7") == ": 7 15;");
  CHECK(selected("gpu=::4,host=1") == ": 8 12;");
  CHECK(selected("\"gpu\"=6:") == ": 6 7 14 15;");
  CHECK(selected("trainers").starts_with("trainers: 0 1 2 3 "));
  CHECK(Selector::parse("")->mesh.empty());
}

TEST_CASE("selector: what is not understood, or not there, is said with its place") {
  CHECK(selected("trainers[") == "selector: at 9: expected ']'");
  CHECK(selected("trainers[]") == "selector: at 9: expected ranks");
  CHECK(selected("trainers[0-5") == "selector: at 12: expected ']'");
  CHECK(selected("trainers[5-3]").find("expected a rank of at least 5, found 3") !=
        std::string::npos);
  CHECK(selected("trainers[x]").find("expected a rank") != std::string::npos);
  CHECK(selected("trainers[1,]").find("expected a rank") != std::string::npos);
  CHECK(selected("trainers[14-16]") ==
        "mesh trainers-13Se1Maqzryj has no rank 16; its ranks are 0-15");
  CHECK(selected("trainers[20]") ==
        "mesh trainers-13Se1Maqzryj has no rank 20; its ranks are 0-15");
  CHECK(selected("rack=1").find("rack") != std::string::npos);
  CHECK(selected("gpu=8").find("slice: at 4: ") == 0);
  CHECK(selected("gpu=").find("expected an index or BEGIN:END:STEP") != std::string::npos);
}
