#include <doctest/doctest.h>

#include <map>
#include <random>
#include <vector>

#include "cli/watch/line_assembler.h"
#include "cli/watch/line_folder.h"

namespace meshbus::cli {
namespace {

using namespace std::chrono_literals;

struct Lines {
  std::vector<ShownLine> seen;
  LineAssembler assembler{[this](ShownLine line) { seen.push_back(std::move(line)); }};
  void add(std::uint64_t rank, std::uint64_t offset, std::string_view bytes, std::uint64_t missed = 0, bool is_last = false) {
    assembler.add({.rank = rank, .stream = Stream::out, .offset = offset, .missed = missed, .bytes = bytes, .is_last = is_last});
  }
  std::string text() const {
    std::string text;
    for (const auto& line : seen) text += std::to_string(line.rank) + "@" + std::to_string(line.offset) + ":" + line.text + "|";
    return text;
  }
};

TEST_CASE("line_assembler: lines out of pieces, each with its offset, the last one unfinished") {
  Lines lines;
  lines.add(0, 0, "one\ntw");
  lines.add(1, 0, "x");
  lines.add(0, 6, "o\n\nrest");
  lines.add(1, 1, "y\n");
  CHECK(lines.text() == "0@0:one|0@4:two|0@8:|1@0:xy|");
  lines.add(0, 13, "", 0, true);
  CHECK(lines.text() == "0@0:one|0@4:two|0@8:|1@0:xy|0@9:rest|");
  lines.add(1, 3, "begun");
  lines.assembler.finish();
  CHECK(lines.text().ends_with("1@3:begun|"));
}

TEST_CASE("line_assembler: what is missing is marked where it is missing") {
  Lines lines;
  lines.add(0, 0, "ab");
  lines.add(0, 12, "cd\nnext\n", 10);
  lines.add(0, 120, "tail\n", 100);
  CHECK(lines.text() == "0@0:ab[10 bytes missed]cd|0@15:next|0@20:[100 bytes missed]tail|");
  CHECK(lines.seen[0].missed == 10);
  CHECK(lines.seen[1].missed == 0);
  lines.add(0, 200, "", 75, true);
  CHECK(lines.text().ends_with("0@125:[75 bytes missed]|"));
}

TEST_CASE("line_assembler: a line over 64 KiB is cut and marked, however it comes") {
  for (const std::size_t piece : {1000UL, 65536UL, 65537UL, 1000000UL}) {
    Lines lines;
    const std::string all = std::string(65536, 'x') + "\n" + std::string(70000, 'y') + "\nz\n";
    for (std::size_t at = 0; at < all.size(); at += piece) lines.add(0, at, std::string_view(all).substr(at, piece));
    REQUIRE(lines.seen.size() == 3);
    CHECK((lines.seen[0].text == std::string(65536, 'x')));
    CHECK((lines.seen[1].text == std::string(65536, 'y') + "[4464 bytes cut]"));
    CHECK(lines.seen[2].text == "z");
    CHECK(lines.seen[2].offset == 65537 + 70001);
  }
}

struct Folded {
  std::vector<std::string> seen;
  std::map<std::pair<std::uint64_t, Stream>, std::vector<std::string>> by_rank;
  LineFolder folder{[this](Stream stream, const RankSet& ranks, const std::string& text) {
    seen.push_back("[" + to_string(ranks) + "] " + text);
    for (const auto& block : ranks) {
      for (auto rank = block.begin; rank < block.end; ++rank) by_rank[{rank, stream}].push_back(text);
    }
  }};
};

TEST_CASE("line_folder: the same line of many ranks comes once, with its ranks") {
  Folded folded;
  for (const std::uint64_t rank : {0UL, 1UL, 2UL, 3UL, 4UL, 5UL, 7UL}) folded.folder.add(rank, Stream::out, "text", {});
  folded.folder.add(6, Stream::out, "other", {});
  folded.folder.add(6, Stream::err, "text", {});
  folded.folder.flush();
  CHECK(folded.seen == std::vector<std::string>{"[0-5,7] text", "[6] other", "[6] text"});
}

TEST_CASE("line_folder: a line joins only where that keeps the order of its rank") {
  Folded folded;
  const auto add = [&](std::uint64_t rank, const char* text) { folded.folder.add(rank, Stream::out, text, {}); };
  add(0, "a");
  add(0, "b");
  add(1, "b");
  add(1, "a");  // not with the first a: that stands before b
  add(2, "a");
  add(2, "a");
  add(2, "b");
  folded.folder.flush();
  CHECK(folded.seen == std::vector<std::string>{"[0,2] a", "[0-1] b", "[1-2] a", "[2] b"});
}

TEST_CASE("line_folder: lines of one rank only do not keep the others from meeting, though the ranks come one after the other") {
  Folded folded;
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    for (const std::string& text : {std::string("start"), "rank " + std::to_string(rank), std::string("middle"), std::string("end")})
      folded.folder.add(rank, Stream::out, text, {});
  }
  folded.folder.flush();
  CHECK(folded.seen == std::vector<std::string>{"[0-2] start", "[0] rank 0", "[1] rank 1", "[2] rank 2", "[0-2] middle", "[0-2] end"});
}

TEST_CASE("line_folder: what has waited long enough goes, and later ones begin anew") {
  Folded folded;
  const LineFolder::Time t0{10s};
  folded.folder.add(0, Stream::out, "a", t0);
  folded.folder.add(1, Stream::out, "b", t0 + 100ms);
  folded.folder.flush(t0 + 50ms);
  CHECK(folded.seen == std::vector<std::string>{"[0] a"});
  folded.folder.add(1, Stream::out, "a", t0 + 150ms);
  folded.folder.add(0, Stream::out, "b", t0 + 150ms);
  folded.folder.flush();
  CHECK(folded.folder.empty());
  CHECK(folded.seen == std::vector<std::string>{"[0] a", "[0-1] b", "[1] a"});
}

TEST_CASE("line_folder: every rank's lines are its own, in order, for random interleavings") {
  std::minstd_rand random(2);
  for (int round = 0; round < 200; ++round) {
    Folded folded;
    std::map<std::pair<std::uint64_t, Stream>, std::vector<std::string>> written;
    for (int i = 0; i < 300; ++i) {
      const std::uint64_t rank = random() % 6;
      const auto stream = random() % 4 == 0 ? Stream::err : Stream::out;
      const std::string text(1, static_cast<char>('a' + random() % 5));
      written[{rank, stream}].push_back(text);
      folded.folder.add(rank, stream, text, LineFolder::Time(std::chrono::milliseconds(i)));
      if (random() % 20 == 0) folded.folder.flush(LineFolder::Time(std::chrono::milliseconds(i - 30)));
    }
    folded.folder.flush();
    REQUIRE(folded.by_rank == written);
  }
}

TEST_CASE("line_folder: bounded, however much waits") {
  Folded folded;
  const std::string large(100'000, 'x');
  for (std::uint64_t i = 0; i < 100; ++i) folded.folder.add(0, Stream::out, large + std::to_string(i), {});
  CHECK(folded.seen.size() > 50);
  folded.folder.flush();
  CHECK(folded.seen.size() == 100);
}

}  // namespace
}  // namespace meshbus::cli
