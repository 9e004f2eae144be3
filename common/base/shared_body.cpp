#include "meshbus/shared_body.h"

#include <cstring>

#include "common/base/sealed_memory.h"
#include "meshbus/large_text.h"

namespace meshbus {
namespace {

constexpr std::size_t kLeastKept = 64 * 1024;

/// Has the descriptor, which receivers on this host get, and what the bytes are read through.
struct Sealed {
  UniqueFd descriptor;
  std::shared_ptr<const void> mapped;
};

}  // namespace

SharedBody::SharedBody(std::string_view bytes, std::shared_ptr<const void> owner, int descriptor)
    : bytes_(bytes), owner_(std::move(owner)), descriptor_(descriptor) {}

Result<SharedBody> SharedBody::make(std::size_t bytes, const std::function<void(char*)>& write) {
  auto memory = SealedMemory::fill(bytes, write);
  if (!memory) return fail(memory.error());
  return of_sealed(std::move(*memory).release(), bytes);
}

Result<SharedBody> SharedBody::of_sealed(int descriptor, std::size_t bytes) {
  UniqueFd memory(descriptor);
  if (bytes == 0) return SharedBody({}, nullptr);
  auto mapped = SealedMemory::map(memory.get(), bytes);
  if (!mapped) return fail(mapped.error());
  const std::string_view view(static_cast<const char*>(mapped->get()), bytes);
  auto owner = std::make_shared<const Sealed>(Sealed{std::move(memory), std::move(*mapped)});
  return SharedBody(view, owner, owner->descriptor.get());
}

SharedBody SharedBody::keep(std::string_view bytes, const std::shared_ptr<const void>* owner) {
  // A small one would keep all that came with it.
  if (owner != nullptr && *owner != nullptr && bytes.size() > kLeastKept) return {bytes, *owner};
  return of(copy_large(bytes));
}

SharedBody SharedBody::gather(std::span<const std::string_view> pieces) {
  std::size_t size = 0;
  for (const auto piece : pieces) size += piece.size();
  if (auto memory = SealedMemory::copy(pieces)) {
    if (auto body = of_sealed(std::move(*memory).release(), size)) return *body;
  }
  std::string text;
  reserve_large(text, size);
  for (const auto piece : pieces) text.append(piece);
  return of(std::move(text));
}

}  // namespace meshbus
