#include "common/base/message_part.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace meshbus;

namespace {

constexpr std::size_t kSizes[] = {
    0, 1, MessagePart::kInside - 1, MessagePart::kInside, MessagePart::kInside + 1, 4096, 1 << 20};

/// Memory that a part is given, and how often it came back.
struct Lent {
  explicit Lent(std::size_t size) : bytes(size, 'z') {}
  MessagePart part() { return {bytes.data(), bytes.size(), give_back, this}; }
  static void give_back(void* data, void* hint) {
    auto* const lent = static_cast<Lent*>(hint);
    lent->is_same = data == lent->bytes.data();
    ++lent->times_back;
  }
  std::string bytes;
  bool is_same = false;
  std::atomic<int> times_back = 0;
};

std::string text_of(const MessagePart& part) {
  return std::string(part.view());
}

}  // namespace

TEST_CASE("message_part: bytes of every size are copied, aligned, and stay when the part moves") {
  CHECK(MessagePart().empty());
  CHECK(MessagePart().view().empty());
  CHECK(MessagePart(nullptr, 0).empty());
  for (const std::size_t size : kSizes) {
    CAPTURE(size);
    std::string text(size, 'a');
    if (!text.empty()) text.back() = 'b';
    MessagePart part(text);
    CHECK(part.size() == size);
    CHECK(part.empty() == (size == 0));
    CHECK(text_of(part) == text);
    CHECK((size == 0 || part.data() != text.data()));
    CHECK(reinterpret_cast<std::uintptr_t>(part.data()) % alignof(std::max_align_t) == 0);

    const bool is_inside = size <= MessagePart::kInside;
    const char* const where = part.data();
    MessagePart moved(std::move(part));
    CHECK(text_of(moved) == text);
    CHECK((moved.data() == where) == !is_inside);  // a large one is not copied
    CHECK(part.empty());                           // NOLINT(bugprone-use-after-move): empty then
    CHECK(part.view().empty());

    MessagePart other(std::string(100, 'o'));
    other = std::move(moved);
    CHECK(text_of(other) == text);
    CHECK(moved.empty());  // NOLINT(bugprone-use-after-move)
    auto& itself = other;
    other = std::move(itself);
    CHECK(text_of(other) == text);
    other = {};
    CHECK(other.empty());
    moved = MessagePart("again");
    CHECK(text_of(moved) == "again");
  }
}

TEST_CASE("message_part: what was not copied is where it was, and can be written") {
  for (const std::size_t size : kSizes) {
    CAPTURE(size);
    MessagePart part(size);
    REQUIRE(part.size() == size);
    if (size > 0) std::memset(part.data(), 'x', size);
    CHECK(text_of(part) == std::string(size, 'x'));
    Lent lent(size);
    const MessagePart whole = lent.part();
    CHECK(whole.data() == lent.bytes.data());
    CHECK(text_of(whole) == lent.bytes);
  }
}

TEST_CASE("message_part: lent memory comes back once, when nobody has it any more") {
  Lent lent(1000);
  {
    MessagePart part = lent.part();
    MessagePart moved = std::move(part);
    MessagePart first, second(std::string(200, 'o'));
    first.share(moved);
    second.share(first);
    second.share(second);
    CHECK(first.data() == lent.bytes.data());
    CHECK(second.view() == moved.view());
    moved = {};
    first = MessagePart("other");
    CHECK(lent.times_back == 0);
    CHECK(text_of(second) == lent.bytes);
  }
  CHECK(lent.times_back == 1);
  CHECK(lent.is_same);

  // A part without bytes gives its memory back, too.
  Lent nothing(0);
  nothing.part();
  CHECK(nothing.times_back == 1);
}

TEST_CASE("message_part: shares of small parts have bytes of their own") {
  for (const std::size_t size : kSizes) {
    CAPTURE(size);
    MessagePart part(std::string(size, 'a'));
    MessagePart share;
    share.share(part);
    CHECK(share.view() == part.view());
    CHECK((share.data() == part.data()) == (size > MessagePart::kInside));
    part = MessagePart("gone");
    CHECK(text_of(share) == std::string(size, 'a'));
    share.share(MessagePart());
    CHECK(share.empty());
  }
}

TEST_CASE("message_part: shares end on any thread, and the last one gives the memory back") {
  for (int round = 0; round < 200; ++round) {
    Lent lent(100);
    {
      const MessagePart part = lent.part();
      std::vector<MessagePart> shares(4);
      for (auto& share : shares) share.share(part);
      std::vector<std::thread> threads;
      for (auto& share : shares) {
        threads.emplace_back([own = std::move(share)]() mutable {
          MessagePart more;
          more.share(own);
          own = {};
        });
      }
      for (auto& thread : threads) thread.join();
      CHECK(lent.times_back == 0);
    }
    CHECK(lent.times_back == 1);
  }
}
