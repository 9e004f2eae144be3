#include "common/bus/sliced_copy.h"

#include <memory>
#include <new>
#include <utility>

#include "meshbus/large_text.h"

namespace meshbus {
namespace {

/// About a millisecond, with the page faults of new memory.
constexpr std::size_t kSlice = 256 * 1024;

struct Copy {
  SharedBody from;
  std::function<void(Result<std::string>)> done;
  std::string to = {};
};

void go_on(Reactor& reactor, const std::shared_ptr<Copy>& copy) {
  reactor.post([&reactor, copy] {
    copy->to.append(copy->from.bytes().substr(copy->to.size(), kSlice));
    if (copy->to.size() < copy->from.bytes().size()) return go_on(reactor, copy);
    copy->done(std::move(copy->to));
  });
}

}  // namespace

void copy_in_slices(Reactor& reactor, SharedBody body,
                    std::function<void(Result<std::string>)> done) {
  const std::size_t size = body.bytes().size();
  auto copy = std::make_shared<Copy>(Copy{.from = std::move(body), .done = std::move(done)});
  try {
    reserve_large(copy->to, size);
  } catch (const std::bad_alloc&) {
    return reactor.post([copy, size] {
      copy->done(fail(ErrorCode::queue_full,
                      "no memory for an answer of " + std::to_string(size) + " bytes"));
    });
  }
  go_on(reactor, copy);
}

}  // namespace meshbus
