#pragma once

namespace meshbus::test {

/// How many times as long everything may take that has to come at all. ThreadSanitizer makes programs 5 to 15 times slower (its own
/// documentation); the limits of the tests leave room for three times of that anyway, because machines are busy.
#if defined(__SANITIZE_THREAD__)
inline constexpr int slowness = 5;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr int slowness = 5;
#else
inline constexpr int slowness = 1;
#endif
#else
inline constexpr int slowness = 1;
#endif

}  // namespace meshbus::test
