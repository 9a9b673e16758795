"""Configs of a broker or controller for security, as a table (see config_def.parse_table).

Names, types, defaults and allowed values are those of AbstractKafkaConfig.CONFIG_DEF, Kafka 4.3.1; the descriptions are
not Kafka's. A type ends in its update mode: ro with a restart, pb on one broker at run time, cw on the whole cluster at
run time.
"""

from typing import Final

SECURITY_TABLE: Final = """
authorizer.class.name | STRING/ro |  | LOW | non-null string | The class that authorizes requests; empty allows everything.
connection.failed.authentication.delay.ms | INT/ro | 100 | LOW | [0,...] | How long a connection stays open after a failed login, so that guessing is slow, in ms.
connections.max.reauth.ms | LONG/ro | 0 | MEDIUM |  | After how long a client must log in again, in ms; 0 never.
delegation.token.expiry.check.interval.ms | LONG/ro | 3600000 | LOW | [1,...] | How often expired delegation tokens are removed, in ms.
delegation.token.expiry.time.ms | LONG/ro | 86400000 | MEDIUM | [1,...] | How long a delegation token is valid without being renewed, in ms.
delegation.token.max.lifetime.ms | LONG/ro | 604800000 | MEDIUM | [1,...] | How long a delegation token can be renewed at all, in ms.
delegation.token.secret.key | PASSWORD/ro | null | MEDIUM |  | The secret that delegation tokens are made with; the same on every node.
principal.builder.class | CLASS/pb | org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder | MEDIUM |  | The class that creates a principal from a connection's identity.
sasl.client.callback.handler.class | CLASS/ro | null | MEDIUM |  | The callback handler of the client side of SASL.
sasl.enabled.mechanisms | LIST/pb | GSSAPI | MEDIUM | distinct | The SASL mechanisms that the server offers.
sasl.jaas.config | PASSWORD/pb | null | MEDIUM |  | The login module and its options, in the form of a JAAS file.
sasl.kerberos.kinit.cmd | STRING/pb | /usr/bin/kinit | MEDIUM |  | The path of kinit.
sasl.kerberos.min.time.before.relogin | LONG/pb | 60000 | MEDIUM |  | The shortest time between two renewals of a Kerberos ticket, in ms.
sasl.kerberos.principal.to.local.rules | LIST/pb | DEFAULT | MEDIUM | distinct | Rules that turn Kerberos principals into short names; the first that fits counts.
sasl.kerberos.service.name | STRING/pb | null | MEDIUM |  | The Kerberos name that the brokers run under.
sasl.kerberos.ticket.renew.jitter | DOUBLE/pb | 0.05 | MEDIUM |  | The share by which the renewal of a Kerberos ticket varies at random.
sasl.kerberos.ticket.renew.window.factor | DOUBLE/pb | 0.8 | MEDIUM |  | After what share of its life a Kerberos ticket is renewed.
sasl.login.callback.handler.class | CLASS/ro | null | MEDIUM |  | The callback handler of the node's login.
sasl.login.class | CLASS/ro | null | MEDIUM |  | The class that performs the node's login.
sasl.login.connect.timeout.ms | INT/ro | null | LOW |  | How long a connection to the identity provider may take, in ms.
sasl.login.read.timeout.ms | INT/ro | null | LOW |  | How long the identity provider's answer may take, in ms.
sasl.login.refresh.buffer.seconds | SHORT/pb | 300 | MEDIUM |  | How long before its end a credential is renewed at the latest, in seconds.
sasl.login.refresh.min.period.seconds | SHORT/pb | 60 | MEDIUM |  | How long a credential is kept at least before it is renewed, in seconds.
sasl.login.refresh.window.factor | DOUBLE/pb | 0.8 | MEDIUM |  | After what share of its life a credential is renewed.
sasl.login.refresh.window.jitter | DOUBLE/pb | 0.05 | MEDIUM |  | The share by which the renewal of a credential varies at random.
sasl.login.retry.backoff.max.ms | LONG/ro | 10000 | LOW |  | The longest wait between attempts to log in at the identity provider, in ms.
sasl.login.retry.backoff.ms | LONG/ro | 100 | LOW |  | The first wait between attempts to log in at the identity provider, in ms.
sasl.mechanism.controller.protocol | STRING/ro | GSSAPI | HIGH |  | The SASL mechanism for connections to controllers.
sasl.mechanism.inter.broker.protocol | STRING/pb | GSSAPI | MEDIUM |  | The SASL mechanism for connections between brokers.
sasl.oauthbearer.assertion.algorithm | STRING/ro | RS256 | MEDIUM | (case insensitive) [ES256, RS256] | The algorithm that signs the assertion sent to the identity provider.
sasl.oauthbearer.assertion.claim.aud | STRING/ro | null | MEDIUM |  | The audience claim of the assertion.
sasl.oauthbearer.assertion.claim.exp.seconds | INT/ro | 300 | LOW | [0,...,86400] | How long the assertion is valid, in seconds.
sasl.oauthbearer.assertion.claim.iss | STRING/ro | null | MEDIUM |  | The issuer claim of the assertion.
sasl.oauthbearer.assertion.claim.jti.include | BOOLEAN/ro | false | MEDIUM |  | Whether the assertion contains a unique id.
sasl.oauthbearer.assertion.claim.nbf.seconds | INT/ro | 60 | LOW | [0,...,3600] | How far in the past the assertion's validity begins, in seconds.
sasl.oauthbearer.assertion.claim.sub | STRING/ro | null | MEDIUM |  | The subject claim of the assertion.
sasl.oauthbearer.assertion.file | STRING/ro | null | MEDIUM |  | A file with a ready-made assertion.
sasl.oauthbearer.assertion.private.key.file | STRING/ro | null | MEDIUM |  | A PEM file with the private key that signs the assertion.
sasl.oauthbearer.assertion.private.key.passphrase | PASSWORD/ro | null | MEDIUM |  | The passphrase of the private key that signs the assertion.
sasl.oauthbearer.assertion.template.file | STRING/ro | null | MEDIUM |  | A file with headers and claims that the assertion begins with.
sasl.oauthbearer.client.credentials.client.id | STRING/ro | null | MEDIUM |  | The id that this client logs in with at the identity provider.
sasl.oauthbearer.client.credentials.client.secret | PASSWORD/ro | null | MEDIUM |  | The secret that this client logs in with at the identity provider.
sasl.oauthbearer.clock.skew.seconds | INT/ro | 30 | LOW |  | How far the identity provider's clock may differ from ours, in seconds.
sasl.oauthbearer.expected.audience | LIST/ro |  | HIGH | distinct | The audiences that a token must name, one of them at least.
sasl.oauthbearer.expected.issuer | STRING/ro | null | HIGH |  | The issuer that a token must name.
sasl.oauthbearer.jwks.endpoint.refresh.ms | LONG/ro | 3600000 | LOW |  | How often the identity provider's keys are read again, in ms.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms | LONG/ro | 10000 | LOW |  | The longest wait between attempts to read the identity provider's keys, in ms.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms | LONG/ro | 100 | LOW |  | The first wait between attempts to read the identity provider's keys, in ms.
sasl.oauthbearer.jwks.endpoint.url | STRING/ro | null | MEDIUM |  | Where the identity provider's keys are read.
sasl.oauthbearer.jwt.retriever.class | CLASS/ro | org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever | MEDIUM |  | The class that gets tokens.
sasl.oauthbearer.jwt.validator.class | CLASS/ro | org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator | MEDIUM |  | The class that checks tokens.
sasl.oauthbearer.scope | STRING/ro | null | MEDIUM |  | The scope requested from the identity provider.
sasl.oauthbearer.scope.claim.name | STRING/ro | scope | LOW |  | The claim of a token that holds its scope.
sasl.oauthbearer.sub.claim.name | STRING/ro | sub | LOW |  | The claim of a token that holds its subject.
sasl.oauthbearer.token.endpoint.url | STRING/ro | null | MEDIUM |  | The URL of the token endpoint.
sasl.server.callback.handler.class | CLASS/ro | null | MEDIUM |  | The callback handler of the server side of SASL.
sasl.server.max.receive.size | INT/ro | 524288 | MEDIUM |  | The largest message accepted before a client has logged in, in bytes.
security.inter.broker.protocol | STRING/ro | PLAINTEXT | MEDIUM | [PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL] | The security protocol between brokers, unless inter.broker.listener.name is set.
security.providers | STRING/ro | null | LOW |  | Java classes that provide security algorithms.
ssl.allow.dn.changes | BOOLEAN/ro | false | LOW |  | Whether a new certificate may have another distinguished name when it is exchanged at run time.
ssl.allow.san.changes | BOOLEAN/ro | false | LOW |  | Whether a new certificate may lack alternative names of the old one when it is exchanged at run time.
ssl.cipher.suites | LIST/pb |  | MEDIUM | distinct | The cipher suites that may be used; empty allows all that are available.
ssl.client.auth | STRING/pb | none | MEDIUM | [required, requested, none] | Whether a client certificate is required, requested or not used.
ssl.enabled.protocols | LIST/pb | TLSv1.2,TLSv1.3 | MEDIUM | distinct | The versions of TLS that may be used.
ssl.endpoint.identification.algorithm | STRING/pb | https | LOW |  | How a server's name is compared with its certificate; empty does not compare.
ssl.engine.factory.class | CLASS/pb | null | LOW |  | The class that creates TLS engines.
ssl.key.password | PASSWORD/pb | null | MEDIUM |  | The password of the private key.
ssl.keymanager.algorithm | STRING/pb | SunX509 | MEDIUM |  | The algorithm of the key manager.
ssl.keystore.certificate.chain | PASSWORD/pb | null | MEDIUM |  | The certificate chain itself, as PEM.
ssl.keystore.key | PASSWORD/pb | null | MEDIUM |  | The private key itself, as PEM.
ssl.keystore.location | STRING/pb | null | MEDIUM |  | The file of the key store.
ssl.keystore.password | PASSWORD/pb | null | MEDIUM |  | The password of the key store.
ssl.keystore.type | STRING/pb | JKS | MEDIUM |  | The format of the key store.
ssl.principal.mapping.rules | STRING/ro | DEFAULT | LOW |  | Rules that turn the name in a client's certificate into a short name; the first that fits counts.
ssl.protocol | STRING/pb | TLSv1.3 | MEDIUM |  | The version of TLS that contexts are made for.
ssl.provider | STRING/pb | null | MEDIUM |  | The provider of TLS; null means the default one.
ssl.secure.random.implementation | STRING/pb | null | LOW |  | The random generator for TLS; null means the default one.
ssl.trustmanager.algorithm | STRING/pb | PKIX | MEDIUM |  | The algorithm of the trust manager.
ssl.truststore.certificates | PASSWORD/pb | null | MEDIUM |  | The trusted certificates themselves, as PEM.
ssl.truststore.location | STRING/pb | null | MEDIUM |  | The file of the trust store.
ssl.truststore.password | PASSWORD/pb | null | MEDIUM |  | The password of the trust store.
ssl.truststore.type | STRING/pb | JKS | MEDIUM |  | The format of the trust store.
"""
