// What has changed on a host since a number, for those that ask again and again.
#include <doctest/doctest.h>

#include "agent/host/updates/change_list.h"
#include "tests/unit/agent/host/fixture.h"

using namespace meshbus;
using namespace meshbus::host;

namespace {

using namespace std::chrono_literals;

/// Meshes of `ranks` ranks each, all of them starting.
struct Site {
  explicit Site(int meshes, std::uint64_t ranks = 3) {
    for (int i = 0; i < meshes; ++i) {
      auto request = host::test::good_request();
      request.mesh = Name::make("m", static_cast<std::uint64_t>(i) + 1)->to_string();
      auto spec = host::test::parse(request);
      REQUIRE(spec.has_value());
      const auto assignment = std::make_shared<const Assignment>(Assignment{*spec, {}});
      Mesh& mesh = table.add_mesh(*spec, Reactor::Time(100s));
      names.push_back(mesh.name);
      for (std::uint64_t rank = 0; rank < ranks; ++rank)
        procs.push_back(table.add_proc(mesh, assignment, rank, 1, {}));
    }
    book.look(table.meshes());
  }
  wire::MeshListT list(std::uint64_t since) {
    book.look(table.meshes());
    return make_change_list(table.meshes(), book, {.since = since});
  }

  ProcTable table{RecordBook::Limits{}};
  ChangeBook book;
  std::vector<std::string> names;
  std::vector<Proc*> procs;
};

}  // namespace

TEST_CASE("change_list: at first everything, then what has changed, then nothing") {
  Site site(2);
  const auto all = site.list(0);
  CHECK(all.since == 0);
  REQUIRE(all.meshes.size() == 2);
  CHECK(all.meshes[0]->ranks.size() == 3);
  CHECK(all.sequence == site.book.sequence());
  CHECK(site.list(all.sequence).meshes.empty());
  CHECK(site.book.sequence() == all.sequence);

  REQUIRE(site.procs[4]->state.on_started(77, 1));
  const auto later = site.list(all.sequence);
  REQUIRE(later.meshes.size() == 1);
  CHECK(later.meshes[0]->mesh == site.names[1]);
  REQUIRE(later.meshes[0]->ranks.size() == 1);
  CHECK(later.meshes[0]->ranks[0].rank() == 1);
  CHECK(later.meshes[0]->ranks[0].pid() == 77);
  CHECK(site.list(later.sequence).meshes.empty());
  // An earlier reader gets the same.
  CHECK(site.list(all.sequence).meshes.size() == 1);
}

TEST_CASE("change_list: the last line that is not empty, of the stream that was written last") {
  Site site(1);
  Proc& proc = *site.procs[0];
  proc.output.out.tail.append("step 1\nstep 2\n\n");
  auto list = site.list(0);
  REQUIRE(list.meshes[0]->lines.size() == 1);
  const auto line = [&list] {
    const auto& bytes = list.meshes[0]->lines.at(0)->bytes;
    return std::string(bytes.begin(), bytes.end());
  };
  CHECK(line() == "step 2");
  proc.output.err.tail.append("warning: late\nunfinished");
  list = site.list(list.sequence);
  CHECK(line() == "unfinished");
  proc.output.out.tail.append("step 3\n");
  list = site.list(list.sequence);
  CHECK(line() == "step 3");
  proc.output.out.tail.append(std::string(5000, 'x') + "\n");
  list = site.list(list.sequence);
  CHECK(line() == std::string(200, 'x'));
}

TEST_CASE("change_list: pages go on at the rank where there was no more room") {
  Site site(3, 50);
  std::size_t ranks = 0;
  int pages = 0;
  ChangeQuery query;
  for (bool more = true; more; ++pages) {
    REQUIRE(pages < 100);
    const auto page = make_change_list(site.table.meshes(), site.book, query, 2000);
    for (const auto& mesh : page.meshes) ranks += mesh->ranks.size();
    more = page.more;
    query.from = page.next;
    query.from_rank = page.next_rank;
  }
  CHECK(ranks == 150);
  CHECK(pages > 5);
  // However little room there is, each page has something.
  query = {};
  const auto least = make_change_list(site.table.meshes(), site.book, query, 1);
  CHECK(least.meshes.at(0)->ranks.size() == 1);
  CHECK(least.more);
  CHECK(least.next_rank == 1);
}

TEST_CASE("change_book: forgotten meshes are named, as long as it remembers") {
  ChangeBook book;
  Site site(2);
  const ProcTable::Meshes none;
  book.look(site.table.meshes());
  const auto before = book.sequence();
  book.look(none);
  CHECK(book.forgotten_after(before) == site.names);
  CHECK(book.forgotten_after(book.sequence()).empty());
  CHECK(book.is_known(before));
  CHECK_FALSE(book.is_known(book.sequence() + 1));
}
