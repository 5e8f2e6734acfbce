/**
 * Where a broker is: an endpoint, or several, of which one is connected to at a time: a list, or a text with commas.
 * @typedef {string | readonly string[]} Brokers
 */
/**
 * Where a broker is, and what it is shown. Without `brokerKey`: no keys.
 * @typedef {{ endpoints: string[], brokerKey?: string, publicKey?: string, secretKey?: string }} Peer
 */
/** @typedef {Record<string, string | undefined>} Environment */
/** @typedef {{ broker?: Brokers, brokerKey?: string, secretKey?: string }} PeerOptions */
/**
 * A key itself, or from `file:PATH`, `env:VARIABLE` or systemd's `credential:NAME`. Throws an Error; no message repeats a key.
 * @param {string} source @param {Environment} environment
 */
export function readSecret(source: string, environment: Environment): string;
/**
 * Reads endpoints and keys. Throws an Error for endpoints or keys that are none, or where one of the two is missing.
 * @param {PeerOptions} options What stands in the program. @param {PeerOptions} variables What the environment says.
 * @param {string} endpoint Where neither names a broker. @param {Environment} environment
 * @returns {Peer}
 */
export function peerOf(options: PeerOptions, variables: PeerOptions, endpoint: string, environment: Environment): Peer;
/** Throws a TypeError where there is none, too many, or what cannot be one. @param {Brokers} brokers */
export function endpointsOf(brokers: Brokers): string[];
/** Throws a TypeError for a port that cannot be; what else can be none says the connection. @param {string} endpoint */
export function checkPort(endpoint: string): void;
/**
 * Throws a TypeError for an option that there is none of: a slip in a name would have no effect. The options; where they are endpoints
 * alone, these as `broker`.
 * @template {{ broker?: Brokers }} Options
 * @param {Options | Brokers} given
 * @param {readonly (keyof Options)[]} names
 * @returns {Options}
 */
export function optionsOf<Options extends {
    broker?: Brokers;
}>(given: Options | Brokers, names: readonly (keyof Options)[]): Options;
/** The public key that belongs to a secret one, both in Z85. @param {string} secret */
export function publicKeyOf(secret: string): string;
export const CLIENTS_ENDPOINT: "tcp://127.0.0.1:5570";
export const WORKERS_ENDPOINT: "tcp://127.0.0.1:5571";
export const ENDPOINTS_MAX: 16;
/**
 * Where a broker is: an endpoint, or several, of which one is connected to at a time: a list, or a text with commas.
 */
export type Brokers = string | readonly string[];
/**
 * Where a broker is, and what it is shown. Without `brokerKey`: no keys.
 */
export type Peer = {
    endpoints: string[];
    brokerKey?: string;
    publicKey?: string;
    secretKey?: string;
};
export type Environment = Record<string, string | undefined>;
export type PeerOptions = {
    broker?: Brokers;
    brokerKey?: string;
    secretKey?: string;
};
