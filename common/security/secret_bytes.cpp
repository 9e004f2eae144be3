#include "common/security/secret_bytes.h"

#include <cstring>
#include <new>

#include <sodium.h>

namespace meshbus {

SecretBytes::SecretBytes(std::string&& text) : size_(text.size()) {
  // Its allocator needs that, and it may be called again.
  if (::sodium_init() < 0) throw std::bad_alloc();
  auto* bytes = static_cast<unsigned char*>(::sodium_malloc(size_ == 0 ? 1 : size_));
  if (bytes == nullptr) throw std::bad_alloc();
  std::memcpy(bytes, text.data(), size_);
  ::sodium_memzero(text.data(), text.size());
  text.clear();
  ::sodium_mprotect_readonly(bytes);
  bytes_ = {bytes, [](const unsigned char* old) {
              ::sodium_free(const_cast<unsigned char*>(old));  // NOLINT(*-const-cast): its own
            }};
}

}  // namespace meshbus
