"""The keys of TLS: the keys, trust, protocols and suites of a listener.

This module declares names, types, defaults and bounds, as in Apache Kafka 4.3. ``config.tls``
decides what they mean for a listener. TLS keys that have no effect here are in ``accepted_keys``. A
value is checked only by the listeners that use it.
"""

from log_service.config.definition import PER_BROKER, ConfigType, Trait, no_empty_item, one_of
from log_service.config.definition import declared as _key

PASSWORD, STRING = ConfigType.PASSWORD, ConfigType.STRING
STORE = Trait.STORE | Trait.LISTENER | Trait.ACCESS

TLS_KEYS = (
    _key("ssl.keystore.type", STRING, "JKS", "What the key store is: JKS, PKCS12 or PEM.",
         "Java's; a store in PKCS12 is recognized as one", update_mode=PER_BROKER, traits=STORE),
    _key("ssl.keystore.location", STRING, None, "The file with the private key and its certificate chain.",
         "none, a listener with TLS needs a key", update_mode=PER_BROKER, traits=STORE),
    _key("ssl.keystore.password", PASSWORD, None, "The password of a key store in JKS or PKCS12; one in PEM has none.", "none",
         update_mode=PER_BROKER, traits=STORE),
    _key("ssl.keystore.key", PASSWORD, None, "The private key itself, PEM, with ssl.keystore.type=PEM.", "the file is read",
         update_mode=PER_BROKER, traits=STORE),
    _key("ssl.keystore.certificate.chain", PASSWORD, None, "The certificate of that key and those above it, PEM.", "the file is read",
         update_mode=PER_BROKER, traits=STORE),
    _key("ssl.key.password", PASSWORD, None, "The password of the private key, where that has one of its own.", "the key store's",
         update_mode=PER_BROKER, traits=STORE),
    _key("ssl.truststore.type", STRING, "JKS", "What the trust store is: JKS, PKCS12 or PEM.",
         "Java's; a store in PKCS12 is recognized as one", update_mode=PER_BROKER, traits=STORE),
    _key("ssl.truststore.location", STRING, None, "The file with the authorities that sign the others' certificates.",
         "the system's authorities where this node connects; where it is connected to, there has to be one", update_mode=PER_BROKER,
         traits=STORE),
    _key("ssl.truststore.password", PASSWORD, None, "The password of a trust store in JKS or PKCS12.", "none", update_mode=PER_BROKER,
         traits=STORE),
    _key("ssl.truststore.certificates", PASSWORD, None, "Those authorities themselves, PEM, with ssl.truststore.type=PEM.",
         "the file is read", update_mode=PER_BROKER, traits=STORE),
    _key("ssl.enabled.protocols", ConfigType.LIST, "TLSv1.2,TLSv1.3", "The versions of TLS that are spoken.", "what is older is not safe",
         validator=no_empty_item, update_mode=PER_BROKER, traits=Trait.LISTENER | Trait.FILE_ALONE),
    _key("ssl.cipher.suites", ConfigType.LIST, "", "The cipher suites that are spoken, by their names in Java; of TLS 1.3 all or none.",
         "OpenSSL's own choice", validator=no_empty_item, update_mode=PER_BROKER, traits=Trait.LISTENER | Trait.FILE_ALONE),
    _key("ssl.client.auth", STRING, "none", "Whether clients show a certificate: none, requested or required. On a listener with SASL only "
         "the key with the listener's prefix counts.", "clients are anonymous",
         validator=one_of("required", "requested", "none"), update_mode=PER_BROKER,
         traits=Trait.ACCESS | Trait.LISTENER | Trait.FILE_ALONE),
    _key("ssl.endpoint.identification.algorithm", STRING, "https", "How a node that this one connects to is known: https compares the host "
         "with the names in its certificate, an empty text compares nothing.", "a certificate of another host is not this host's",
         update_mode=PER_BROKER, traits=Trait.ACCESS | Trait.LISTENER | Trait.FILE_ALONE),
    _key("ssl.principal.mapping.rules", STRING, "DEFAULT", "How the name in a client's certificate becomes that of a user: DEFAULT, or "
         "RULE:pattern/replacement/ with L or U behind it, separated by commas.", "the name as it is",
         traits=Trait.ACCESS | Trait.LISTENER | Trait.FILE_ALONE),
    _key("ssl.allow.dn.changes", ConfigType.BOOLEAN, "false", "Whether a listener's new certificate may have another name than the old one "
         "while a node runs.", "clients that know the name go on", traits=Trait.ACCESS | Trait.LISTENER),
    _key("ssl.allow.san.changes", ConfigType.BOOLEAN, "false", "Whether a listener's new certificate may be for fewer hosts than the old "
         "one while a node runs.", "clients that know the host go on", traits=Trait.ACCESS | Trait.LISTENER),
)  # fmt: skip
