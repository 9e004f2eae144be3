#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace meshbus {

/// 32 bytes of a CURVE key, or of a key that both ends of a connection compute. Wiped when it goes.
class CurveKey {
 public:
  static constexpr std::size_t kSize = 32;
  CurveKey() noexcept = default;
  /// `bytes` has kSize bytes.
  explicit CurveKey(std::string_view bytes) noexcept;
  CurveKey(const CurveKey&) = default;
  CurveKey& operator=(const CurveKey&) = default;
  ~CurveKey();

  /// Nothing: the text is no key in Z85.
  static std::optional<CurveKey> from_text(std::string_view text);
  /// Random, from the kernel.
  static CurveKey random();
  std::string to_text() const;
  /// The public key that belongs to this secret one.
  CurveKey make_public() const;

  const std::uint8_t* data() const noexcept { return bytes_.data(); }
  std::uint8_t* data() noexcept { return bytes_.data(); }
  std::string_view view() const noexcept {
    return {reinterpret_cast<const char*>(bytes_.data()), kSize};
  }
  /// Takes the same time for all keys.
  bool operator==(const CurveKey& other) const noexcept;

 private:
  std::array<std::uint8_t, kSize> bytes_{};
};

/// A key of this end.
struct CurveKeyPair {
  CurveKey public_key;
  CurveKey secret_key;

  /// Random.
  static CurveKeyPair make();
  /// Nothing: one of the texts is no key in Z85.
  static std::optional<CurveKeyPair> from_text(std::string_view public_key,
                                               std::string_view secret_key);
};

}  // namespace meshbus
