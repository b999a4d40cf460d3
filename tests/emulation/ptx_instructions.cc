#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulation/copies.h"
#include "tests/emulation/ptx_program.h"
#include "tests/emulation/threads.h"

namespace emulation {
namespace {

// The parts of a list, or the argument itself.
std::vector<Argument> Parts(const Argument& a) {
  return a.kind == Argument::kList ? a.parts : std::vector<Argument>{a};
}

// --- arithmetic -------------------------------------------------------------

uint16_t ToBf16(float v) {
  return static_cast<__nv_bfloat16_raw>(__float2bfloat16_rn(v)).x;
}
uint16_t ToHalf(float v) {
  return static_cast<__half_raw>(__float2half_rn(v)).x;
}
uint16_t ToHalfTowardsZero(float v) {
  return static_cast<__half_raw>(__float2half_rz(v)).x;
}
uint16_t FusedHalf(uint16_t a, uint16_t b, uint16_t c) {
  // Products are exact in fp64. Errors of sums are far smaller than a half's.
  const double sum = static_cast<double>(FromHalf(a)) * FromHalf(b) +
                     static_cast<double>(FromHalf(c));
  return std::bit_cast<uint16_t>(static_cast<_Float16>(sum));
}
uint16_t FusedBf16(uint16_t a, uint16_t b, uint16_t c) {
  return ToBf16(std::fma(FromBf16(a), FromBf16(b), FromBf16(c)));
}

constexpr uint16_t kNan16 = 0x7FFF;
template <bool kLarger, bool kNan, bool kXorSign, auto kFrom = FromBf16>
uint16_t Pick(uint16_t a, uint16_t b) {
  const float x = kFrom(kXorSign ? a & 0x7FFF : a);
  const float y = kFrom(kXorSign ? b & 0x7FFF : b);
  if (std::isnan(x) || std::isnan(y)) {
    if (kNan || (std::isnan(x) && std::isnan(y))) return kNan16;
    return std::isnan(x) ? b : a;
  }
  const bool first = kLarger ? x > y || (x == y && !std::signbit(x))
                             : x < y || (x == y && std::signbit(x));
  const uint16_t picked = first ? a : b;
  if (!kXorSign) return picked;
  return static_cast<uint16_t>((picked & 0x7FFF) | ((a ^ b) & 0x8000));
}

using Halves = uint16_t (*)(uint16_t, uint16_t);
template <Halves kOf>
void TwoHalves(Frame& f, const Instruction& i) {
  const uint32_t a = Get32(f, i.arguments[1]);
  const uint32_t b = Get32(f, i.arguments[2]);
  Set(f, i.arguments[0], Join(kOf(Low(a), Low(b)), kOf(High(a), High(b))));
}
using Fused = uint16_t (*)(uint16_t, uint16_t, uint16_t);
template <Fused kOf>
void FusedHalves(Frame& f, const Instruction& i) {
  const uint32_t a = Get32(f, i.arguments[1]);
  const uint32_t b = Get32(f, i.arguments[2]);
  const uint32_t c = Get32(f, i.arguments[3]);
  Set(f, i.arguments[0],
      Join(kOf(Low(a), Low(b), Low(c)), kOf(High(a), High(b), High(c))));
}
// The first source is the upper half.
template <uint16_t (*kOf)(float)>
void PackFloats(Frame& f, const Instruction& i) {
  Set(f, i.arguments[0],
      Join(kOf(GetFloat(f, i.arguments[2])), kOf(GetFloat(f, i.arguments[1]))));
}
template <__nv_fp8_interpretation_t kType>
void PackFp8(Frame& f, const Instruction& i) {
  const auto code = [&](const Argument& a) {
    return uint32_t{
        __nv_cvt_float_to_fp8(GetFloat(f, a), __NV_SATFINITE, kType)};
  };
  Set(f, i.arguments[0], code(i.arguments[2]) | code(i.arguments[1]) << 8);
}
void UnpackE4M3(Frame& f, const Instruction& i) {
  const uint32_t codes = Get32(f, i.arguments[1]);
  const auto half = [](uint32_t code) {
    return __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(code),
                                   __NV_E4M3)
        .x;
  };
  Set(f, i.arguments[0], Join(half(codes & 0xFF), half(codes >> 8 & 0xFF)));
}
void HalfToFloat(Frame& f, const Instruction& i) {
  Set(f, i.arguments[0],
      std::bit_cast<uint32_t>(FromHalf(Low(Get32(f, i.arguments[1])))));
}
// --- E2M1, in the words of the PTX ISA manual -------------------------------

// The magnitudes of the codes: two bits of exponent, one of mantissa, neither
// Inf nor NaN. The last one is MAX_NORM.
constexpr double kE2m1Values[] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};

// cvt.rn.satfinite: "NaN results are converted to positive MAX_NORM. If the
// absolute value of input is greater than MAX_NORM, then the result is
// sign-preserved MAX_NORM." Other inputs, "subnormal numbers" included, round
// "to nearest, with ties to even", so to a code whose mantissa bit is 0.
uint32_t E2m1Code(float v) {
  if (std::isnan(v)) return 7;
  const double x = std::fabs(v);
  uint32_t nearest = 0;
  for (uint32_t code = 1; code < 8; ++code) {
    const double old = std::fabs(x - kE2m1Values[nearest]);
    const double now = std::fabs(x - kE2m1Values[code]);
    if (now < old || (now == old && code % 2 == 0)) nearest = code;
  }
  if (x > kE2m1Values[7]) nearest = 7;
  return nearest | (std::signbit(v) ? 8u : 0u);
}
// "The value converted from input a is stored in the upper 4 bits of d."
void PackE2m1(Frame& f, const Instruction& i) {
  Set(f, i.arguments[0],
      E2m1Code(GetFloat(f, i.arguments[1])) << 4 |
          E2m1Code(GetFloat(f, i.arguments[2])));
}
// "The value converted from the upper 4 bits of a is stored in the upper 16
// bits of d."
void UnpackE2m1(Frame& f, const Instruction& i) {
  const auto half = [](uint32_t code) {
    return ToHalf(std::copysign(static_cast<float>(kE2m1Values[code & 7]),
                                (code & 8) != 0 ? -1.0f : 1.0f));
  };
  const uint32_t codes = Get32(f, i.arguments[1]);
  Set(f, i.arguments[0], Join(half(codes & 15), half(codes >> 4 & 15)));
}

// Splits a word into equal parts, joins parts, or copies a number.
void Move(Frame& f, const Instruction& i) {
  const Argument& to = i.arguments[0];
  const Argument& from = i.arguments[1];
  if (to.kind == Argument::kList) {
    const size_t bits = 32 / to.parts.size();
    const uint32_t word = Get32(f, from);
    for (size_t n = 0; n < to.parts.size(); ++n) {
      Set(f, to.parts[n], word >> (n * bits) & ((1u << bits) - 1));
    }
  } else if (from.kind == Argument::kList) {
    const size_t bits = 32 / from.parts.size();
    uint32_t word = 0;
    for (size_t n = 0; n < from.parts.size(); ++n) {
      word |= (Get32(f, from.parts[n]) & ((1u << bits) - 1)) << (n * bits);
    }
    Set(f, to, word);
  } else {
    Set(f, to, Get(f, from));
  }
}
void MaxNan(Frame& f, const Instruction& i) {
  const float a = GetFloat(f, i.arguments[1]);
  const float b = GetFloat(f, i.arguments[2]);
  Set(f, i.arguments[0],
      std::isnan(a) || std::isnan(b)
          ? 0x7FFFFFFFu
          : std::bit_cast<uint32_t>(std::fmax(a, b)));
}
void Magnitudes(Frame& f, const Instruction& i) {
  Set(f, i.arguments[0], Get32(f, i.arguments[1]) & 0x7FFF7FFFu);
}
// Each bit of the result is a bit of the table, found with a bit of each
// source.
void Combine(Frame& f, const Instruction& i) {
  const uint32_t a = Get32(f, i.arguments[1]);
  const uint32_t b = Get32(f, i.arguments[2]);
  const uint32_t c = Get32(f, i.arguments[3]);
  const uint32_t table = Get32(f, i.arguments[4]);
  uint32_t word = 0;
  for (uint32_t n = 0; n < 8; ++n) {
    if ((table >> n & 1) == 0) continue;
    word |= (n & 4 ? a : ~a) & (n & 2 ? b : ~b) & (n & 1 ? c : ~c);
  }
  Set(f, i.arguments[0], word);
}
void MultiplyAdd(Frame& f, const Instruction& i) {
  Set(f, i.arguments[0],
      Get32(f, i.arguments[1]) * Get32(f, i.arguments[2]) +
          Get32(f, i.arguments[3]));
}
void Permute(Frame& f, const Instruction& i) {
  const uint64_t bytes =
      Get32(f, i.arguments[1]) | uint64_t{Get32(f, i.arguments[2])} << 32;
  const uint32_t selector = Get32(f, i.arguments[3]);
  uint32_t word = 0;
  for (int n = 0; n < 4; ++n) {
    const uint32_t which = selector >> (4 * n) & 0xF;
    uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (which & 7))) & 0xFF;
    if (which & 8) byte = byte & 0x80 ? 0xFF : 0;
    word |= byte << (8 * n);
  }
  Set(f, i.arguments[0], word);
}
void SetEqual(Frame& f, const Instruction& i) {
  Set(f, i.arguments[0], Get32(f, i.arguments[1]) == Get32(f, i.arguments[2]));
}
void SetNotEqual(Frame& f, const Instruction& i) {
  Set(f, i.arguments[0], Get32(f, i.arguments[1]) != Get32(f, i.arguments[2]));
}
void Select(Frame& f, const Instruction& i) {
  Set(f, i.arguments[0],
      Get(f, i.arguments[Get(f, i.arguments[3]) != 0 ? 1 : 2]));
}

// --- memory -----------------------------------------------------------------

template <size_t kBytes>
void LoadFromShared(Frame& f, const Instruction& i) {
  const std::byte* from = SharedAt(f, i.arguments[1]);
  const std::vector<Argument> to = Parts(i.arguments[0]);
  if (reinterpret_cast<uintptr_t>(from) % (kBytes * to.size()) != 0) {
    RefusePtx("a load that is not aligned");
  }
  for (const Argument& a : to) {
    uint64_t bits = 0;
    std::memcpy(&bits, from, kBytes);
    Set(f, a, bits);
    from += kBytes;
  }
}
template <size_t kBytes, bool kShared>
void StoreTo(Frame& f, const Instruction& i) {
  std::byte* to =
      kShared ? SharedAt(f, i.arguments[0]) : GlobalAt(f, i.arguments[0]);
  const std::vector<Argument> from = Parts(i.arguments[1]);
  if (reinterpret_cast<uintptr_t>(to) % (kBytes * from.size()) != 0) {
    RefusePtx("a store that is not aligned");
  }
  for (const Argument& a : from) {
    const uint64_t bits = Get(f, a);
    std::memcpy(to, &bits, kBytes);
    to += kBytes;
  }
}

ThreadCopies& Copies() {
  if (!current->copies) current->copies = std::make_shared<ThreadCopies>();
  return *static_cast<ThreadCopies*>(current->copies.get());
}

void CopyLater(Frame& f, const Instruction& i) {
  const size_t bytes = Get(f, i.arguments[2]);
  const size_t there = i.arguments.size() > 3 ? Get(f, i.arguments[3]) : bytes;
  Copies().open.push_back({SharedAt(f, i.arguments[0]),
                           GlobalAt(f, i.arguments[1]), there, bytes - there});
}
void Commit(Frame&, const Instruction&) { Copies().Commit(); }
void Await(Frame& f, const Instruction& i) {
  Copies().Await(Get(f, i.arguments[0]));
}
void AwaitAll(Frame&, const Instruction&) { Copies().AwaitAll(); }
void ArriveWithCopies(Frame& f, const Instruction& i) {
  Copies().AwaitAll();
  ArriveAt(SharedAt(f, i.arguments[0]));
}
// Arguments: [to], [map, {x, y}], [barrier].
void CopyByEngine(Frame& f, const Instruction& i) {
  const Argument& from = i.arguments[1];
  const std::vector<Argument>& at = from.parts[1].parts;
  CopyBox(reinterpret_cast<const void*>(Get(f, from.parts[0])),
          SharedAt(f, i.arguments[0]), static_cast<int32_t>(Get32(f, at[0])),
          static_cast<int32_t>(Get32(f, at[1])), SharedAt(f, i.arguments[2]));
}

// --- barriers ---------------------------------------------------------------

void Init(Frame& f, const Instruction& i) {
  InitBarrier(SharedAt(f, i.arguments[0]), Get32(f, i.arguments[1]));
}
void Arrive(Frame& f, const Instruction& i) {
  ArriveAt(SharedAt(f, i.arguments[1]));
}
void Expect(Frame& f, const Instruction& i) {
  ExpectAt(SharedAt(f, i.arguments[0]), Get32(f, i.arguments[1]));
}
void TestWait(Frame& f, const Instruction& i) {
  std::byte* const at = SharedAt(f, i.arguments[1]);
  const bool over = IsOver(at, Get32(f, i.arguments[2]));
  if (!over) Yield();
  Set(f, i.arguments[0], over);
}
void NamedBarrier(Frame& f, const Instruction& i) {
  Barrier(Get32(f, i.arguments[0]), Get32(f, i.arguments[1]));
}
void Nothing(Frame&, const Instruction&) {}

}  // namespace

Handler FindInstruction(const std::string& name) {
  static const std::map<std::string, Handler> handlers = {
      {"cvt.rn.bf16x2.f32", PackFloats<ToBf16>},
      {"cvt.rn.f16x2.f32", PackFloats<ToHalf>},
      {"cvt.rz.f16x2.f32", PackFloats<ToHalfTowardsZero>},
      {"cvt.rn.satfinite.e4m3x2.f32", PackFp8<__NV_E4M3>},
      {"cvt.rn.satfinite.e5m2x2.f32", PackFp8<__NV_E5M2>},
      {"cvt.rn.f16x2.e4m3x2", UnpackE4M3},
      {"cvt.rn.satfinite.e2m1x2.f32", PackE2m1},
      {"cvt.rn.f16x2.e2m1x2", UnpackE2m1},
      {"cvt.f32.f16", HalfToFloat},
      {"mov.b16", Move},
      {"mov.b32", Move},
      {"max.NaN.xorsign.abs.bf16x2", TwoHalves<Pick<true, true, true>>},
      {"abs.bf16x2", Magnitudes},
      {"max.bf16x2", TwoHalves<Pick<true, false, false>>},
      {"max.NaN.bf16x2", TwoHalves<Pick<true, true, false>>},
      {"max.NaN.xorsign.abs.f16x2",
       TwoHalves<Pick<true, true, true, FromHalf>>},
      {"max.NaN.f16x2", TwoHalves<Pick<true, true, false, FromHalf>>},
      {"min.xorsign.abs.bf16x2", TwoHalves<Pick<false, false, true>>},
      {"min.bf16x2", TwoHalves<Pick<false, false, false>>},
      {"max.NaN.f32", MaxNan},
      {"fma.rn.f16x2", FusedHalves<FusedHalf>},
      {"fma.rn.bf16x2", FusedHalves<FusedBf16>},
      {"lop3.b32", Combine},
      {"mad.lo.u32", MultiplyAdd},
      {"prmt.b32", Permute},
      {"setp.eq.s32", SetEqual},
      {"setp.ne.b32", SetNotEqual},
      {"selp.u32", Select},
      {"ld.shared.u16", LoadFromShared<2>},
      {"ld.shared.u32", LoadFromShared<4>},
      {"ld.shared.v2.u32", LoadFromShared<4>},
      {"ld.shared.v4.u32", LoadFromShared<4>},
      {"st.shared.u16", StoreTo<2, true>},
      {"st.shared.u32", StoreTo<4, true>},
      {"st.shared.v2.u32", StoreTo<4, true>},
      {"st.shared.v4.u32", StoreTo<4, true>},
      {"st.global.b32", StoreTo<4, false>},
      {"st.global.v2.b32", StoreTo<4, false>},
      {"st.global.v4.b32", StoreTo<4, false>},
      {"st.global.v2.f32", StoreTo<4, false>},
      {"cp.async.ca.shared.global", CopyLater},
      {"cp.async.cg.shared.global", CopyLater},
      {"cp.async.commit_group", Commit},
      {"cp.async.wait_group", Await},
      {"cp.async.wait_all", AwaitAll},
      {"cp.async.mbarrier.arrive.noinc.shared.b64", ArriveWithCopies},
      {"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_"
       "tx::bytes",
       CopyByEngine},
      {"mbarrier.init.shared.b64", Init},
      {"mbarrier.arrive.shared.b64", Arrive},
      {"mbarrier.expect_tx.relaxed.cta.shared::cta.b64", Expect},
      {"mbarrier.try_wait.parity.shared::cta.b64", TestWait},
      {"mbarrier.test_wait.parity.shared.b64", TestWait},
      {"bar.sync", NamedBarrier},
      {"barrier.cta.sync", NamedBarrier},
      {"fence.mbarrier_init.release.cluster", Nothing},
      {"fence.proxy.async.shared::cta", Nothing},
      {"griddepcontrol.launch_dependents", Nothing},
      {"griddepcontrol.wait", Nothing},
      {"setmaxnreg.dec.sync.aligned.u32", Nothing},
      {"setmaxnreg.inc.sync.aligned.u32", Nothing},
      {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", LoadMatrices},
      {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
       LoadMatricesTransposed},
      {"stmatrix.sync.aligned.m8n8.x4.shared.b16", StoreMatrices},
      {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", MultiplyBf16},
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", MultiplyHalf},
  };
  const auto found = handlers.find(name);
  if (found == handlers.end()) RefusePtx(name);
  return found->second;
}

}  // namespace emulation
