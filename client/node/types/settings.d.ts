/**
 * Where a broker is, and what it is shown. Without `brokerKey`: no keys.
 * @typedef {{ endpoint: string, brokerKey?: string, publicKey?: string, secretKey?: string }} Peer
 */
/** @typedef {Record<string, string | undefined>} Environment */
/** @typedef {{ broker?: string, brokerKey?: string, secretKey?: string }} PeerOptions */
/**
 * A key itself, or from `file:PATH`, `env:VARIABLE` or systemd's `credential:NAME`. Throws an Error; no message repeats a key.
 * @param {string} source @param {Environment} environment
 */
export function readSecret(source: string, environment: Environment): string;
/**
 * Reads the keys. Throws an Error for keys that are none, or where one of the two is missing.
 * @param {PeerOptions} options What stands in the program. @param {PeerOptions} variables What the environment says.
 * @param {string} endpoint Where neither names a broker. @param {Environment} environment
 * @returns {Peer}
 */
export function peerOf(options: PeerOptions, variables: PeerOptions, endpoint: string, environment: Environment): Peer;
/** The public key that belongs to a secret one, both in Z85. @param {string} secret */
export function publicKeyOf(secret: string): string;
export const CLIENTS_ENDPOINT: "tcp://127.0.0.1:5570";
export const WORKERS_ENDPOINT: "tcp://127.0.0.1:5571";
/**
 * Where a broker is, and what it is shown. Without `brokerKey`: no keys.
 */
export type Peer = {
    endpoint: string;
    brokerKey?: string;
    publicKey?: string;
    secretKey?: string;
};
export type Environment = Record<string, string | undefined>;
export type PeerOptions = {
    broker?: string;
    brokerKey?: string;
    secretKey?: string;
};
