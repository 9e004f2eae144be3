#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace meshbus {

/// A secret in memory of its own: locked, so that it is never written to swap, left out of core
/// dumps, between pages that nobody can read, and overwritten when the last copy goes. Copies share
/// it. A plain value that never changes.
class SecretBytes {
 public:
  /// Takes the secret out of `text`, which is overwritten.
  explicit SecretBytes(std::string&& text);

  const unsigned char* data() const noexcept { return bytes_.get(); }
  std::size_t size() const noexcept { return size_; }

 private:
  std::shared_ptr<const unsigned char> bytes_;
  std::size_t size_;
};

}  // namespace meshbus
