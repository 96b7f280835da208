// Hashing and curve arithmetic for the engine in the browser.
import { secp256k1 as curve } from "@noble/curves/secp256k1.js";
import { blake3 as hash3 } from "@noble/hashes/blake3.js";

const Point = curve.Point;
const big = (hex) => BigInt(`0x${hex}`);

export const blake3 = {
  hash(data, length, context) {
    const bytes = data.toJs ? data.toJs() : data;
    const given = context ? { context: new TextEncoder().encode(context) } : {};
    return hash3(bytes, { dkLen: length, ...given });
  },
};

export const secp256k1 = {
  point(scalar) {
    return Point.BASE.multiply(big(scalar)).toHex(true);
  },
  holds(x, s, minusE, r) {
    try {
      const base = big(s) === 0n ? Point.ZERO : Point.BASE.multiplyUnsafe(big(s));
      const part = big(minusE) === 0n ? Point.ZERO
        : Point.fromHex(`02${x}`).multiplyUnsafe(big(minusE));
      const sum = base.add(part);
      return !sum.is0() && sum.toHex(true) === `02${r}`;
    } catch {
      return false;
    }
  },
};
